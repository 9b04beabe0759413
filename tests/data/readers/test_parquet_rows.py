"""Parquet tables: plain cells, lists, and what is not a table."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import open_split, taken_as
from scob.data.readers.parquet_rows import parquet_cells
from scob.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

Painter = Callable[..., Path]


def write(path: Path, columns: dict[str, list[object]]) -> str:
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_tags_lists_and_one_hot(tmp_path: Path, paint: Painter) -> None:
    for name in ("a.png", "b.png"):
        paint(tmp_path / name)
    names = ["a.png", "b.png"]
    tags = write(tmp_path / "tags.parquet", {"file_name": names, "tags": ["x|y", "y"]})
    lists = write(tmp_path / "lists.parquet", {"image": names, "labels": [["x", "y"], ["y"]]})
    hot = write(tmp_path / "hot.parquet", {"path": names, "x": [True, False], "y": [True, True]})
    for source in (tags, lists, hot):
        labels = open_split(source, None).labels
        assert labels.classes == ("x", "y")
        np.testing.assert_array_equal(labels.values, [[1, 1], [0, 1]])
    assert "separated by '|'" in taken_as(tags)
    assert taken_as(hot) == "a table, images in the column 'path', one column per class (0 means unknown), 2 classes"


def test_what_is_not_a_table(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match="is not a Parquet file"):
        parquet_cells(tmp_path / "x.parquet", "x.parquet")
    numbers = write(tmp_path / "n.parquet", {"image": [1, 2], "label": ["a", "b"]})
    with pytest.raises(UserError, match="the column 'image' is int64, not the name of a file"):
        parquet_cells(Path(numbers), "n.parquet")
