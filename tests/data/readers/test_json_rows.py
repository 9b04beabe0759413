"""JSON objects, one per image: our own predictions old and new, suggestions, and other tools' keys."""

from typing import Any

from scob.data.readers.json_rows import json_lines, rows_of_entries
from scob.data.readers.row_splits import Row
from scob.errors import UserError


def states(*entries: Any) -> list[dict[str, int]]:
    rows, _ = rows_of_entries(list(enumerate(entries, 1)), "t.jsonl", None)
    return [row.states for row in rows if isinstance(row, Row)]


def test_predictions_of_this_and_of_earlier_versions() -> None:
    new = {"image": "a.png", "labels": ["cat", "cup"], "scores": [0.9, 0.8], "error": None, "score:cat": 0.9}
    old = {"image": "b.png", "labels": [{"label": "cat", "score": 0.9}]}
    assert states(new, old) == [{"cat": 1, "cup": 1}, {"cat": 1}]


def test_a_prediction_that_failed_is_named() -> None:
    rows, _ = rows_of_entries([(3, {"image": "a.png", "labels": [], "error": "it is damaged"})], "p.json", None)
    [error] = list(rows)
    assert isinstance(error, UserError) and str(error) == "p.json row 3: the prediction failed (it is damaged)"


def test_suggestions_add_what_was_known_once() -> None:
    first = {"image": "a.png", "class": "cup", "score": 0.9, "confidence": 0.9, "observed": ["cat"], "mask": None}
    assert states(first, {**first, "class": "dog"}) == [{"cat": 1, "cup": 1}, {"dog": 1}]


def test_keys_of_other_tools_and_separators() -> None:
    lines = '{"file_name": "a.png", "tags": "x|y", "width": 3}\n\n{"file_name": "b.png", "tags": "y"}\n'
    rows, form = rows_of_entries(json_lines(lines), "t.jsonl", None)
    assert [row.states for row in rows if isinstance(row, Row)] == [{"x": 1, "y": 1}, {"y": 1}]
    assert "separated by '|'" in form
    assert states({"filename": "a.png", "label": 3}) == [{"3": 1}]
