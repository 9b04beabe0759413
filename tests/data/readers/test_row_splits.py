"""Rows become images with states; a source that names no class says why."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers.named_images import NamedImages
from scob.data.readers.row_splits import Gathered, Row
from scob.errors import UserError

Painter = Callable[..., Path]


def gathered(folder: Path, rows: list[Row], skip_bad: bool = False) -> Gathered:
    every = Gathered(folder / "t.csv", NamedImages(folder), None, skip_bad)
    every.add_all(rows)
    return every


def test_rows_about_one_image_are_joined(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "a.png")
    rows = [Row("row 1", "a.png", {"cat": 1}, None, False), Row("row 2", "a.png", {"ant": -1}, None, False)]
    split = gathered(tmp_path, rows).split(None)
    assert split.labels.classes == ("ant", "cat")
    np.testing.assert_array_equal(split.labels.values, [[-1, 1]])


def test_a_refused_row_changes_nothing(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "a.png")
    rows = [Row("row 1", "a.png", {"cat": 1}, None, False), Row("row 2", "a.png", {"cat": -1, "dog": 1}, None, False)]
    every = gathered(tmp_path, rows, skip_bad=True)
    assert every.split(None).labels.classes == ("cat",)
    assert every.skipped == ["row 2: 'a.png' has 'cat' absent here and present in row 1"]


def test_every_label_is_blank_only_if_it_is(tmp_path: Path, paint: Painter) -> None:
    missing = gathered(tmp_path, [Row("row 1", "z.png", {"cat": 1}, None, False)], skip_bad=True)
    with pytest.raises(UserError, match=r"no row can be used; the first: row 1: the image 'z\.png' does not exist"):
        missing.split(None)
    paint(tmp_path / "a.png")
    with pytest.raises(UserError, match="every label is blank"):
        gathered(tmp_path, [Row("row 1", "a.png", {}, None, False)]).split(None)
