"""Predicting: which classes, which files; broken input; ONNX without torch."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from scob.errors import UserError
from scob.inference.predict import Scob, find_model, predict, share_of
from scob.inference.predictions import Prediction, PredictionFile, decide
from support.small_model import Small

CLASSES = ("cat", "dog", "a;b")


def test_classes_are_named_by_their_own_thresholds_or_one_or_the_best_k() -> None:
    scores, limits = np.array([0.4, 0.9, 0.6], np.float32), np.array([0.3, 0.95, 0.5], np.float32)
    assert decide("i", scores, CLASSES, limits).labels == ("a;b", "cat")
    assert decide("i", scores, CLASSES, limits, threshold=0.6).labels == ("dog", "a;b")
    assert decide("i", scores, CLASSES, limits, topk=1).labels == ("dog",)
    assert decide("i", scores, CLASSES, limits, topk=2, threshold=0.7).labels == ("dog",)


def rows(path: Path, format: str) -> list[dict[str, object]]:
    """(image, labels, error) of a file, whatever its format."""
    if format == "csv":
        with path.open(newline="") as file:
            read = list(csv.DictReader(file))
        return [
            {"image": r["image"], "labels": [x for x in r["labels"].split(";") if x], "error": r["error"]} for r in read
        ]
    if format == "parquet":
        return [{**r, "error": r["error"] or ""} for r in pyarrow.parquet.read_table(path).to_pylist()]
    text = path.read_text()
    trees = json.loads(text) if format == "json" else [json.loads(line) for line in text.splitlines()]
    return [{**t, "labels": [n["label"] for n in t["labels"]], "error": t.get("error", "")} for t in trees]


@pytest.mark.parametrize("format", ["csv", "json", "jsonl", "parquet"])
def test_every_format_holds_the_same_and_a_broken_image_is_a_row(small: Small, tmp_path: Path, format: str) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    files = [small.files[0], bad, small.files[1]]
    out = tmp_path / "out" / f"found.{format}"
    counts = predict(small.run, files, out, format, batch=2, topk=2, include_scores=True, device="cpu")
    assert counts["images"] == 3 and counts["broken"] == 1
    found = rows(out, format)
    assert [r["image"] for r in found] == [str(f) for f in files]
    assert "not an image" in str(found[1]["error"]) and found[1]["labels"] == []
    expected = Scob.from_pretrained(small.run, "cpu").predict(files, topk=2)
    assert [r["labels"] for r in found] == [list(p.labels) for p in expected]
    assert [f.name for f in out.parent.iterdir()] == [out.name]  # nothing half-written is left


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "found.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError), PredictionFile(path, "csv", CLASSES) as file:
        file.add(Prediction("a", ("cat",), (0.5,)))
        raise RuntimeError
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["found.csv"]


def test_a_semicolon_in_a_class_name_is_escaped(tmp_path: Path) -> None:
    with PredictionFile(tmp_path / "f.csv", "csv", CLASSES) as file:
        file.add(Prediction("i", ("a;b", "cat"), (0.9, 0.8)))
    assert "a\\;b;cat" in (tmp_path / "f.csv").read_text()


def test_arrays_pictures_and_files_are_predicted_alike(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    with Image.open(small.files[0]) as picture:
        array = np.asarray(picture.convert("RGB"))
        given = [small.files[0], array, picture.copy()]
    found = model.predict(given, include_scores=True)
    assert all(p.every is not None and np.allclose(p.every, found[0].every, atol=1e-6) for p in found)


def test_batches_do_not_change_the_scores(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    one, many = (model.predict(small.files[:5], batch=b, include_scores=True) for b in (1, 5))
    assert np.allclose([p.every for p in one], [p.every for p in many], atol=1e-5)


def test_shares_cover_every_image_once() -> None:
    for count in (0, 1, 7, 8):
        parts = [i for rank in range(3) for i in share_of(count, rank, 3)]
        assert parts == list(range(count))


@pytest.mark.slow
def test_processes_of_accelerate_launch_share_the_images(small: Small, tmp_path: Path) -> None:
    out = tmp_path / "found.csv"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "-m", "scob"]  # fmt: skip
    words = ["predict", str(small.run), *map(str, small.files[:5]), "-o", str(out), "--device", "cpu"]
    done = subprocess.run([*launch, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [r["image"] for r in rows(out, "csv")] == [str(f) for f in small.files[:5]]


# Models that cannot be loaded.


def test_a_missing_model_an_unfinished_run_and_a_strange_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no model"):
        find_model(tmp_path / "none")
    with pytest.raises(UserError, match="neither a model folder"):
        find_model(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(UserError, match="not finished"):
        find_model(tmp_path)


def test_a_model_of_another_version_is_refused(own_run: Path) -> None:
    config = own_run / "model" / "config.json"
    config.write_text(config.read_text().replace("scob-model-1", "scob-model-9"))
    with pytest.raises(UserError, match="another version"):
        Scob.from_pretrained(own_run, "cpu")


def test_a_corrupted_safetensors_is_refused(own_run: Path) -> None:
    weights = own_run / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged"):
        Scob.from_pretrained(own_run, "cpu")


def test_one_changed_byte_among_the_weights_is_noticed(own_run: Path) -> None:
    weights = own_run / "model" / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-5] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(UserError, match="damaged: it is not what config"):
        Scob.from_pretrained(own_run, "cpu")


def test_a_model_folder_moves(small: Small, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(small.run / "model", tmp_path / "elsewhere"))
    assert Scob.from_pretrained(moved, "cpu").classes == Scob.from_pretrained(small.run, "cpu").classes
