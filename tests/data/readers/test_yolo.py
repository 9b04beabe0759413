"""YOLO: both ways to arrange the folders, class names from each file, boxes, and broken lines."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, splits_of, taken_as
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


def fill(images: Path, labels: Path, paint: Painter) -> None:
    for number, text in enumerate(("0 0.5 0.5 0.5 0.5\n1 0.1 0.1 0.2 0.2 0.2 0.1", "", "1 0.5 0.5 1 1\n")):
        paint(images / f"{number}.png", seed=number)
        labels.mkdir(parents=True, exist_ok=True)
        if number != 1:
            (labels / f"{number}.txt").write_text(text)


@pytest.mark.parametrize("order", ["images/{}", "{}/images"])
@pytest.mark.parametrize("names", ["[cat, dog]", "{0: cat, 1: dog}"])
def test_splits_and_names(tmp_path: Path, paint: Painter, order: str, names: str) -> None:
    for part in ("train", "val"):
        images = tmp_path / order.format(part)
        fill(images, Path(str(images).replace("images", "labels")), paint)
    (tmp_path / "data.yaml").write_text(f"train: ../train/images\nnc: 2\nnames: {names}\n")
    source = str(tmp_path)
    assert infer_format(source) == "yolo"
    assert taken_as(source) == "YOLO labels, 2 classes"
    assert splits_of(source) == ("train", "val")
    split = open_split(source, "val")
    assert split.labels.classes == ("cat", "dog")
    np.testing.assert_array_equal(split.labels.values, [[1, 1], [-1, -1], [-1, 1]])
    assert split.boxes is not None
    boxes = split.boxes.load(0)
    assert boxes is not None
    assert [box.corners for box in boxes] == [(0.25, 0.25, 0.75, 0.75), (0.1, 0.1, 0.2, 0.2)]


def test_without_splits_or_names(tmp_path: Path, paint: Painter) -> None:
    fill(tmp_path / "images", tmp_path / "labels", paint)
    assert open_split(str(tmp_path), "train").labels.classes == ("0", "1")
    (tmp_path / "classes.txt").write_text("cat\ndog\n")  # as Label Studio exports it
    assert open_split(str(tmp_path), "train").labels.classes == ("cat", "dog")


def test_bad_lines(tmp_path: Path, paint: Painter) -> None:
    fill(tmp_path / "images", tmp_path / "labels", paint)
    (tmp_path / "classes.txt").write_text("cat\n")
    with pytest.raises(UserError, match=r"labels/0\.txt: there is no class 1, only 1"):
        open_split(str(tmp_path), None)
    (tmp_path / "labels" / "0.txt").write_text("0 0.5 0.5 0.5 0.5\ncat 1 1\n")
    with pytest.raises(UserError, match=r"labels/0\.txt line 2: 'cat 1 1' is not 'CLASS x y width height'"):
        open_split(str(tmp_path), None)
    assert len(open_split(str(tmp_path), None, ReadOptions(skip_bad=True)).skipped) == 2


def test_a_number_far_beyond_the_classes_is_a_mistake(tmp_path: Path, paint: Painter) -> None:
    fill(tmp_path / "images", tmp_path / "labels", paint)
    (tmp_path / "labels" / "2.txt").write_text("999999999 0.5 0.5 1 1\n")
    with pytest.raises(UserError, match=r"labels/2\.txt: there is no class 999999999, only 2 \(0 to 1\); list all"):
        open_split(str(tmp_path), None)
    assert len(open_split(str(tmp_path), None, ReadOptions(skip_bad=True))) == 2


def test_numbers_of_names_start_at_0_without_gaps(tmp_path: Path, paint: Painter) -> None:
    fill(tmp_path / "images", tmp_path / "labels", paint)
    (tmp_path / "data.yaml").write_text("names: {1: cat, 2: dog}\n")
    with pytest.raises(UserError, match="or number them from 0"):
        open_split(str(tmp_path), None)
