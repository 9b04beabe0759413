"""Choosing a reader, and what every source has in common: splits, skipped images, complete labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import (
    READERS,
    infer_format,
    match_split,
    no_such_split,
    open_complete,
    open_split,
    read_split,
    reader,
    splits_of,
)
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


@pytest.mark.parametrize("name", READERS)
def test_every_reader_offers_the_same_functions(name: str) -> None:
    module = reader(name)
    assert callable(module.recognises) and callable(module.splits) and callable(module.read)


def test_sources_that_are_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no data at"):
        infer_format(str(tmp_path / "none"))
    with pytest.raises(UserError, match="is neither VOC, COCO nor CUB"):
        infer_format(str(tmp_path))
    with pytest.raises(UserError, match="there is no reader 'imagenet'"):
        reader("imagenet")
    assert infer_format("scenes") == infer_format("scenes:8x32") == "scenes"


def test_the_scenes_are_known_by_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paint: Painter) -> None:
    monkeypatch.chdir(tmp_path)
    paint(tmp_path / "scenes" / "cat" / "a.png")
    assert splits_of("scenes") == splits_of("scenes:8x32") == ("train", "val")
    assert infer_format("./scenes") == infer_format("scenes/") == "folder"
    assert len(read_split("scenes:4x32", "val")) == 2
    with pytest.raises(UserError, match="is not a source of scenes"):
        read_split("scenes:4x32/", "val")


def test_a_named_format_is_not_inferred(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "cat" / "a.png")
    assert open_split(str(tmp_path), None, format="folder").labels.classes == ("cat",)
    with pytest.raises(UserError, match="not in the layout of VOC"):
        open_split(str(tmp_path), None, format="voc")
    with pytest.raises(UserError, match="there is no data at"):
        open_split(str(tmp_path / "none"), None, format="folder")


def test_an_image_that_cannot_be_decoded_is_left_out_only_when_asked(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "cat" / "a.png")
    (tmp_path / "cat" / "b.png").write_bytes(b"x")
    assert len(open_split(str(tmp_path), None)) == 2  # nothing is decoded yet
    opened = open_split(str(tmp_path), None, ReadOptions(skip_bad=True))
    assert opened.labels.images == ("cat/a.png",)
    assert len(opened.skipped) == 1 and "b.png" in opened.skipped[0]


@pytest.mark.parametrize(
    ("split", "splits", "meant"),
    [
        ("val", ("train", "val"), "val"),
        ("val", ("train2014", "val2014"), "val2014"),
        ("train", ("train_2014", "val-1"), "train_2014"),
        ("val", ("train", "validation"), "validation"),
        ("valid", ("train", "val"), "val"),
        ("val", ("val2014", "val2017"), None),
        ("val2014", ("train2017", "val2017"), None),
        ("train", ("trainval", "test"), None),
        ("", ("2014",), None),
    ],
)
def test_a_split_is_found_by_its_name_or_as_the_only_one_of_its_kind(
    split: str, splits: tuple[str, ...], meant: str | None
) -> None:
    assert match_split(split, splits) == meant


@pytest.mark.parametrize(
    ("split", "hint"), [("vall", "'val2014'"), ("Train2014", "'train2014'"), ("val2017", "'val2014'"), ("x", None)]
)
def test_the_nearest_split_is_named(split: str, hint: str | None) -> None:
    message = str(no_such_split("here", split, ("train2014", "val2014")))
    assert message.startswith(f"here has no split {split!r}; it has: train2014, val2014")
    assert message.endswith(f" (did you mean {hint}?)" if hint else "val2014")


def test_a_split_without_images_is_an_error(voc: Path) -> None:
    (voc / "JPEGImages" / "000003.jpg").unlink()
    with pytest.raises(UserError, match="the split 'val' has no usable images"):
        open_split(str(voc), "val", ReadOptions(skip_bad=True))


def test_a_table_of_present_labels_is_complete(tmp_path: Path, paint: Painter) -> None:
    for name in ("a.png", "b.png"):
        paint(tmp_path / name)
    (tmp_path / "labels.csv").write_text("image,label\na.png,x\nb.png,y\n")
    labels = open_complete(str(tmp_path / "labels.csv"), None).labels
    np.testing.assert_array_equal(labels.values, [[1, -1], [-1, 1]])


def test_a_folder_per_class_is_not_complete(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "cat" / "a.png")
    with pytest.raises(UserError, match="nothing can be measured on it: list every class"):
        open_complete(str(tmp_path), None)


def test_nothing_is_measured_without_a_known_label(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("image,x\na.png,0\n")
    with pytest.raises(UserError, match="has a known label, so there is nothing to measure"):
        open_complete(str(tmp_path / "labels.csv"), None)
