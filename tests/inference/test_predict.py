"""Predicting pictures: every format, broken files, shares of several processes."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from scob.inference.model import InferenceOptions, Scob
from scob.inference.predict import predict, predict_images, share_of
from scob.inference.predictions import NamingRule
from support.small_model import Small


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
    return [{**t, "labels": t["labels"], "error": t["error"] or ""} for t in trees]


@pytest.mark.parametrize("format", ["csv", "json", "jsonl", "parquet"])
def test_every_format_has_the_same_rows_and_a_broken_image_is_a_row(small: Small, tmp_path: Path, format: str) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    files = [small.files[0], bad, small.files[1]]
    out = tmp_path / "out" / f"found.{format}"
    counts = predict(
        small.run, files, out, format, NamingRule(topk=2), include_scores=True, running=InferenceOptions(2, "cpu")
    )
    assert counts["images"] == 3 and counts["broken"] == 1
    found = rows(out, format)
    assert [r["image"] for r in found] == [str(f) for f in files]
    assert "not an image" in str(found[1]["error"]) and found[1]["labels"] == []
    expected = Scob.from_pretrained(small.run, "cpu").predict(files, topk=2)
    assert [r["labels"] for r in found] == [list(p.labels) for p in expected]
    assert [f.name for f in out.parent.iterdir()] == [out.name]  # nothing half-written is left


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


def test_progress_counts_broken_pictures_too(small: Small, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"x")
    heard: list[tuple[int, int]] = []
    files = [small.files[0], tmp_path / "bad.png", small.files[1]]
    model = Scob.from_pretrained(small.run, "cpu")
    predictions = list(predict_images(model, files, batch=2, progress=lambda *counts: heard.append(counts)))
    assert [bool(p.error) for p in predictions] == [False, True, False] and heard == [(2, 3), (3, 3)]


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
