"""Hugging Face data sets: as `save_to_disk` writes them, and Parquet files that contain images."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, splits_of, taken_as
from scob.data.split import ReadOptions
from scob.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

Painter = Callable[..., Path]
FEATURES = {
    "image": {"_type": "Image"},
    "labels": {"feature": {"names": ["cat", "dog", "cup"], "_type": "ClassLabel"}, "_type": "List"},
}


@pytest.fixture
def table(tmp_path: Path, paint: Painter) -> Any:
    raw = [paint(tmp_path / f"{n}.png", seed=n).read_bytes() for n in range(3)]
    images = pyarrow.array([{"bytes": each, "path": None} for each in raw])
    noted = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()}
    return pyarrow.table({"image": images, "labels": [[0], [1, 2], []]}).replace_schema_metadata(noted)


def save(folder: Path, table: Any) -> None:
    """As `datasets.Dataset.save_to_disk` does."""
    folder.mkdir(parents=True)
    path = str(folder / "data-00000-of-00001.arrow")
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))


def check(source: str, split: str) -> None:
    assert infer_format(source) == "huggingface"
    read = open_split(source, split)
    assert read.labels.classes == ("cat", "dog", "cup")
    np.testing.assert_array_equal(read.labels.values, [[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    assert read.images.load(1, 8).shape == (8, 8, 3)


def test_on_disk(tmp_path: Path, table: Any) -> None:
    save(tmp_path / "one", table)
    check(str(tmp_path / "one"), "train")
    assert taken_as(str(tmp_path / "one")) == "a Hugging Face data set, 3 classes"
    for part in ("train", "test"):
        save(tmp_path / "two" / part, table)
    (tmp_path / "two" / "dataset_dict.json").write_text('{"splits": ["test", "train"]}')
    assert splits_of(str(tmp_path / "two")) == ("train", "test")
    check(str(tmp_path / "two"), "test")


def test_parquet_with_images(tmp_path: Path, table: Any) -> None:
    (tmp_path / "p" / "data").mkdir(parents=True)
    for part in ("train", "test"):
        parquet.write_table(table, tmp_path / "p" / "data" / f"{part}-00000-of-00001.parquet")
    check(str(tmp_path / "p"), "test")
    assert taken_as(str(tmp_path / "p")) == "Parquet with images, 3 classes"


def test_a_broken_image_and_a_missing_column(tmp_path: Path, table: Any) -> None:
    broken = table.set_column(0, "image", pyarrow.array([{"bytes": b"no", "path": None}] * 3))
    save(tmp_path / "broken", broken)
    with pytest.raises(UserError, match=r"broken train/000000: this is not an image"):
        open_split(str(tmp_path / "broken"), "train").images.load(0)
    with pytest.raises(UserError, match="no image of the split 'train' can be decoded"):
        open_split(str(tmp_path / "broken"), "train", ReadOptions(skip_bad=True))
    save(tmp_path / "bare", table.drop(["labels"]))
    with pytest.raises(UserError, match="needs a column of images and a column called label"):
        open_split(str(tmp_path / "bare"), "train")


@pytest.mark.parametrize("cell", [5, [1, 2]])
def test_a_number_is_not_an_image(tmp_path: Path, cell: object) -> None:
    images = pyarrow.array([{"bytes": cell}])
    parquet.write_table(pyarrow.table({"image": images, "label": ["cat"]}), tmp_path / "train.parquet")
    with pytest.raises(UserError, match=r"train/000000: the image is (int|list), not bytes or a path"):
        open_split(str(tmp_path), "train").images.load(0)


def test_an_arrow_file_with_wrong_lengths_is_refused(tmp_path: Path) -> None:
    table = pyarrow.table({"image": [b"a" * 40, b"b" * 40], "label": ["cat", "dog"]})
    save(tmp_path / "one", table)
    file = tmp_path / "one" / "data-00000-of-00001.arrow"
    raw, offsets = file.read_bytes(), np.array([0, 40, 80], np.int32).tobytes()
    assert raw.count(offsets) == 1
    file.write_bytes(raw.replace(offsets, np.array([0, 40, 1 << 30], np.int32).tobytes()))
    with pytest.raises(UserError, match="cannot be read"):
        open_split(str(tmp_path / "one"), "train")
