"""`scob evaluate`: the same numbers as the run's own, whole files, every image once, errors in one sentence."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from scob.data.readers import open_split
from scob.errors import UserError
from scob.inference.evaluate import evaluate
from scob.inference.scoring import ScoringOptions
from scob.parallel import Processes
from scob.training.scoring import row_batches
from scob.training.train import train

FILES = ("evaluation.json", "average-precision.png", "average-precision.svg", "precision-recall.png")


@pytest.fixture(scope="module")
def run(run_small):
    return run_small("data.evaluate=val", "train.epochs=1")


def test_a_run_is_measured_as_it_measured_itself(run, tmp_path):
    summary = json.loads((run / "summary.json").read_text())
    seen = []
    found = evaluate(
        run, out=tmp_path, processes=Processes(), scoring=ScoringOptions(progress=lambda *n: seen.append(n))
    )
    assert found.to_json() == summary["evaluation"]
    assert found.images == 20 and seen[-1] == (20, 20)
    assert all((tmp_path / name).stat().st_size > 100 for name in FILES)
    stored = json.loads((tmp_path / "evaluation.json").read_text())
    assert stored["mAP"] == found.mAP and stored["split"] == "val" and stored["data"] == "scenes:40x64"
    assert stored["labels"] == open_split("scenes:40x64", "val").labels.fingerprint


def test_a_model_folder_needs_data_and_gives_the_same(run):
    with pytest.raises(UserError, match="--data"):
        evaluate(run / "model", processes=Processes())
    alone = evaluate(run / "model", "scenes:40x64", processes=Processes())
    assert alone == evaluate(run, processes=Processes())
    other = evaluate(run, "scenes:40x64", "train", processes=Processes())
    assert other.images == 40 and other != alone


def test_a_threshold_changes_the_rates_and_nothing_else(run):
    low, high = (evaluate(run, threshold=t, processes=Processes()) for t in (0.0, 1.0))
    assert low.mAP == high.mAP
    assert low.at_threshold.OR == 100 and high.at_threshold.OR == 0


def test_a_split_that_is_not_there_is_named(run):
    with pytest.raises(UserError, match="test"):
        evaluate(run, split="test", processes=Processes())


def test_a_table_lists_every_class_and_a_folder_per_class_cannot(run, tmp_path):
    val = open_split("scenes:40x64", "val")
    rows = []
    for row in range(len(val)):
        path = tmp_path / "photos" / val.labels.classes[int(val.labels.values[row].argmax())] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(val.images.load(row)).save(path)
        shown = np.flatnonzero(val.labels.values[row] == 1)
        rows += [f"{path.relative_to(tmp_path)},{val.labels.classes[c]}" for c in shown]
    table = tmp_path / "val.csv"
    table.write_text("image,label\n" + "\n".join(rows))
    found = evaluate(run / "model", str(table), processes=Processes())
    assert found.mAP == pytest.approx(evaluate(run, processes=Processes()).mAP, abs=1e-4)
    with pytest.raises(UserError, match="list every class of each image in a table"):
        evaluate(run / "model", str(tmp_path / "photos"), processes=Processes())
    own = tmp_path / "own"
    shutil.copytree(run, own)
    settings = yaml.safe_load((own / "config.yaml").read_text())
    settings["data"]["evaluate"] = str(table)  # as `scob train --val` leaves it
    (own / "config.yaml").write_text(yaml.safe_dump(settings))
    assert evaluate(own, processes=Processes()) == found


def test_the_training_images_are_not_measured_unless_asked_for(small, configure, tmp_path):
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    names = [(file.relative_to(small.photos), file.parent.name) for file in small.files]
    (photos / "labels.csv").write_text("image,label\n" + "".join(f"{name},{label}\n" for name, label in names))
    source = str(photos / "labels.csv")
    train(configure(f"data.source={source}", "train.epochs=1", "data.evaluate=val"), tmp_path / "run")
    with pytest.raises(UserError, match=r"no split besides 'train', which the model was trained on.*--split train"):
        evaluate(tmp_path / "run", processes=Processes())
    assert evaluate(tmp_path / "run", split="train", processes=Processes()).images == 24
    assert evaluate(tmp_path / "run" / "model", source, processes=Processes()).images == 24


def test_val_means_the_only_split_of_that_kind(run, tmp_path):
    val = open_split("scenes:40x64", "val")
    rows = ["image,label,split"]
    for row in range(len(val)):
        Image.fromarray(val.images.load(row)).save(tmp_path / f"{row}.png")
        split = "val2014" if row < 10 else "train2014"
        rows += [f"{row}.png,{val.labels.classes[c]},{split}" for c in np.flatnonzero(val.labels.values[row] == 1)]
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    source = str(tmp_path / "labels.csv")
    assert evaluate(run, source, processes=Processes()).images == 10
    assert evaluate(run, source, "train", processes=Processes()).images == 10
    with pytest.raises(UserError, match=r"no split 'vall'.*did you mean 'val2014'"):
        evaluate(run, source, "vall", processes=Processes())


def test_the_verb_prints_one_table_and_writes_beside_the_run(run):
    from scob.cli import build

    done = CliRunner().invoke(build(), ["evaluate", str(run), "--device", "cpu"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "mAP" in done.stdout and "OF1" in done.stdout and "top 3" in done.stdout
    assert (run / "evaluation" / "evaluation.json").is_file()
    done = CliRunner().invoke(build(), ["evaluate", str(run), "--device", "cpu", "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["images"] == 20


@given(st.integers(0, 90), st.integers(1, 20), st.integers(1, 7))
def test_every_image_falls_to_exactly_one_process(count, batch, processes):
    rows = [row for rank in range(processes) for rows in row_batches(count, batch, rank, processes) for row in rows]
    assert np.array_equal(rows, np.arange(count))


@pytest.mark.slow
def test_three_processes_count_every_image_once(run, tmp_path):
    # 20 images among 3 processes: 7, 7 and 6, so the last share is padded.
    script = Path(sys.executable).with_name("scob")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "3",
               "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", str(script),
               "evaluate", str(run), "--out", str(tmp_path), "--device", "cpu", "--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    alone = evaluate(run, processes=Processes())
    shared = json.loads((tmp_path / "evaluation.json").read_text())
    assert shared["images"] == alone.images and shared["known"] == alone.known
    assert shared["mAP"] == pytest.approx(alone.mAP, abs=1e-4)
