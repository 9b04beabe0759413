"""Which classes are named, and the files predictions are written to."""

from pathlib import Path

import numpy as np
import pytest

from scob.errors import UserError
from scob.inference.predictions import CsvLayout, NamingRule, Prediction, PredictionFile, decide

CLASSES = ("cat", "dog", "a;b")


def test_classes_are_named_by_their_own_thresholds_or_one_or_the_best_k() -> None:
    scores, limits = np.array([0.4, 0.9, 0.6], np.float32), np.array([0.3, 0.95, 0.5], np.float32)
    assert decide("i", scores, CLASSES, limits).labels == ("a;b", "cat")
    assert decide("i", scores, CLASSES, limits, NamingRule(threshold=0.6)).labels == ("dog", "a;b")
    assert decide("i", scores, CLASSES, limits, NamingRule(topk=1)).labels == ("dog",)
    assert decide("i", scores, CLASSES, limits, NamingRule(topk=2, threshold=0.7)).labels == ("dog",)


def test_fewer_than_one_class_cannot_be_asked_for() -> None:
    with pytest.raises(UserError, match="--topk must be at least 1, not 0"):
        NamingRule(topk=0)


def test_an_unknown_format_and_parquet_without_a_file_are_refused() -> None:
    with pytest.raises(UserError, match="there is no format 'xml'; the formats are csv, json, jsonl, parquet"):
        PredictionFile(None, "xml", CLASSES)
    with pytest.raises(UserError, match="name a file with --out"):
        PredictionFile(None, "parquet", CLASSES)


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


def test_a_wide_table_has_one_column_per_class_and_a_mark_for_spreadsheets(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    with PredictionFile(path, CsvLayout(wide=True, bom=True), ("dog", "image", "ö")) as file:
        file.add(Prediction("a.jpg", ("ö", "dog"), (0.9, 0.8)))
        file.add(Prediction("b.jpg", error="it is broken"))
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbfimage,")
    lines = raw.decode("utf-8-sig").splitlines()
    assert lines == ["image,dog,class:image,ö,error", "a.jpg,1,0,1,", "b.jpg,,,,it is broken"]
    with PredictionFile(path, CsvLayout(), ("dog",)) as file:
        file.add(Prediction("a.jpg", ("dog",), (0.5,)))
    assert path.read_text() == "image,labels,scores,error\na.jpg,dog,0.500000,\n"
