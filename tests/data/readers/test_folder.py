"""One folder of images per class."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, splits_of, taken_as
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


def test_one_positive_per_image_and_the_rest_unknown(tmp_path: Path, paint: Painter) -> None:
    for name in ("dog/1.png", "cat/1.png", "cat/old/2.png"):
        paint(tmp_path / name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "cat" / "notes.txt").touch()
    assert infer_format(str(tmp_path)) == "folder"
    assert splits_of(str(tmp_path)) == ("train",)
    split = open_split(str(tmp_path), "train")
    assert split.labels.classes == ("cat", "dog", "empty")
    assert split.labels.images == ("cat/1.png", "cat/old/2.png", "dog/1.png")
    np.testing.assert_array_equal(split.labels.values, [[1, 0, 0], [1, 0, 0], [0, 1, 0]])
    with pytest.raises(UserError, match="no split 'val'"):
        open_split(str(tmp_path), "val")


def test_split_folders_share_their_classes(tmp_path: Path, paint: Painter) -> None:
    for name in ("train/dog/1.png", "train/cat/1.png", "val/cat/2.png"):
        paint(tmp_path / name)
    assert splits_of(str(tmp_path)) == ("train", "val")
    assert open_split(str(tmp_path), "val").labels.classes == ("cat", "dog")
    assert len(open_split(str(tmp_path), None)) == 3


def test_images_beside_the_folders_are_left_out_and_said_to_be(tmp_path: Path, paint: Painter) -> None:
    for name in ("dog/1.png", "cat/1.png"):
        paint(tmp_path / name)
    assert taken_as(str(tmp_path)) == "one folder per class, 2 classes"
    paint(tmp_path / "stray.png")
    paint(tmp_path / ".hidden.png")
    assert taken_as(str(tmp_path)) == (
        "one folder per class, 2 classes; 1 image beside these folders has no class and is left out (stray.png)"
    )
    assert "stray.png" not in open_split(str(tmp_path), None).labels.images


def test_images_beside_the_folders_of_a_split(tmp_path: Path, paint: Painter) -> None:
    for name in ("train/dog/1.png", "train/cat/1.png", "val/cat/2.png", "val/b.png", "train/a.png", "c.png"):
        paint(tmp_path / name)
    said = "3 images beside these folders have no class and are left out (c.png, train/a.png, val/b.png)"
    assert taken_as(str(tmp_path)).endswith(said)


def test_train_may_be_a_class(tmp_path: Path, paint: Painter) -> None:
    for name in ("train/1.png", "car/1.png"):
        paint(tmp_path / name)
    assert open_split(str(tmp_path), None).labels.classes == ("car", "train")


def test_links_out_are_refused_or_skipped(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "root" / "cat" / "1.png")
    paint(tmp_path / "out" / "2.png")
    (tmp_path / "root" / "dog").symlink_to(tmp_path / "out")
    with pytest.raises(UserError, match="outside the data folder"):
        open_split(str(tmp_path / "root"), None)
    split = open_split(str(tmp_path / "root"), None, ReadOptions(skip_bad=True))
    assert split.labels.images == ("cat/1.png",)
    assert len(split.skipped) == 1


def test_a_folder_not_in_the_class_list(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "cat" / "1.png")
    with pytest.raises(UserError, match="'cat' is not in the list of 1 classes"):
        open_split(str(tmp_path), None, ReadOptions(classes=("dog",)))


@pytest.mark.parametrize("names", [("images", "labels"), ("train", "val"), ("images",), ("train",)])
def test_folders_of_other_layouts_are_not_classes(
    tmp_path: Path, paint: Callable[..., Path], names: tuple[str]
) -> None:
    for name in names:
        paint(tmp_path / name / "a.png")
    with pytest.raises(UserError, match=f"its folders {' and '.join(sorted(names))} are not classes"):
        infer_format(str(tmp_path))
    for name in ("cat", "dog"):
        paint(tmp_path / name / "a.png")
    assert infer_format(str(tmp_path)) == "folder"  # 'train' may also be a class, beside others


def test_a_file_is_not_a_folder_of_classes(tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"")
    with pytest.raises(UserError, match="is not a folder; give one that has a folder of images per class"):
        taken_as(str(tmp_path / "cat.jpg"), format="folder")
