"""COCO: labels, merged masks, images without a label, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.data.describe import describe
from scob.data.readers import infer_format, open_split, splits_of
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


def square(x: int, y: int, side: int) -> list[list[int]]:
    return [[x, y, x + side, y, x + side, y + side, x, y + side]]


@pytest.fixture
def coco(tmp_path: Path, paint: Painter) -> tuple[Path, dict[str, Any]]:
    for name in ("train2014/1.jpg", "train2014/2.jpg", "val2014/3.jpg"):
        paint(tmp_path / name)
    data: dict[str, Any] = {
        "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
        "images": [
            {"id": 10, "file_name": "1.jpg", "width": 24, "height": 18},
            {"id": 11, "file_name": "2.jpg", "width": 24, "height": 18},
        ],
        "annotations": [
            {"id": 1, "image_id": 10, "category_id": 7, "segmentation": square(0, 0, 4), "iscrowd": 0},
            {"id": 2, "image_id": 10, "category_id": 7, "segmentation": square(8, 8, 4), "iscrowd": 0},
            {
                "id": 3,
                "image_id": 10,
                "category_id": 3,
                "segmentation": {"size": [18, 24], "counts": [0, 18, 414]},
                "iscrowd": 1,
            },
        ],
    }
    val = {**data, "images": [{"id": 12, "file_name": "3.jpg", "width": 24, "height": 18}], "annotations": []}
    save(tmp_path, data)
    save(tmp_path, val, "val2014")
    return tmp_path, data


def save(root: Path, data: object, name: str = "train2014") -> None:
    path = root / "annotations" / f"instances_{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data))


def test_labels_by_category_id(coco: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    source = str(coco[0])
    assert infer_format(source) == "coco"
    assert splits_of(source) == ("train2014", "val2014")
    split = open_split(source, "train")
    assert split.labels.classes == ("cat", "dog")
    np.testing.assert_array_equal(split.labels.values, [[1, 1], [-1, -1]])
    assert split.expected_positives is None  # not the 80 classes
    assert capsys.readouterr().out == ""


def test_an_image_without_a_label_is_kept(coco: tuple[Path, dict[str, Any]]) -> None:
    assert open_split(str(coco[0]), "val2014").labels.images == ("val2014/3.jpg",)
    everything = open_split(str(coco[0]), None)
    assert len(everything) == 3
    assert everything.masks is not None
    empty = everything.masks.load(1)
    assert empty is not None and empty.present == {}
    assert everything.masks.load(2) is None  # the file of val2014 has no segmentation


def test_masks_are_merged_per_class(coco: tuple[Path, dict[str, Any]]) -> None:
    masks = open_split(str(coco[0]), "train").masks
    assert masks is not None
    objects = masks.load(0)
    assert objects is not None
    dog = objects.present[1]
    assert dog.shape == (18, 24)
    assert dog[1, 1]
    assert dog[9, 9]
    assert not dog[6, 6]
    assert dog.sum() == 32
    assert objects.present[0].sum() == 18  # the crowd's first column
    assert not objects.void.any()


def test_boxes_are_fractions_and_a_crowd_is_difficult(coco: tuple[Path, dict[str, Any]]) -> None:
    root, data = coco
    boxes = open_split(str(root), "train").boxes
    assert boxes is None  # no annotation has a bbox
    for mark, box in zip(data["annotations"], ([0, 0, 12, 9], [6, 9, 30, 9], [0, 0, 24, 18]), strict=True):
        mark["bbox"] = box
    save(root, data)
    for split, rows in (("train", 2), (None, 3)):
        boxes = open_split(str(root), split).boxes
        assert boxes is not None
        first, second, crowd = boxes.load(0) or ()
        assert (first.label, first.corners, first.difficult) == (1, (0.0, 0.0, 0.5, 0.5), False)
        assert second.corners == (0.25, 0.5, 1.0, 1.0) and crowd.difficult
        assert boxes.load(rows - 1) == ()


@pytest.mark.parametrize("box", [[0, 0, 4], "wide", [0, 0, 0, 5], [0, 0, 1, float("inf")]])
def test_an_impossible_box_is_refused(coco: tuple[Path, dict[str, Any]], box: object) -> None:
    root, data = coco
    for mark in data["annotations"]:
        mark["bbox"] = box
    save(root, data)
    boxes = open_split(str(root), "train").boxes
    assert boxes is not None
    with pytest.raises(UserError, match="the boxes of COCO image 10 cannot be read"):
        boxes.load(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["images"][1].update(file_name="none.jpg"), r"instances_train2014\.json image 2: .*does not exist"),
        (lambda d: d["images"][1].update(file_name="../../x.jpg"), r"image 2: .*outside"),
        (lambda d: d["images"][1].update(id=10), r"image 2: the id 10 already belongs to .*image 1"),
        (
            lambda d: d["annotations"][1].update(category_id=99),
            r"annotation 2: the category 99 is not in the list of 2",
        ),
        (lambda d: d["annotations"][1].update(image_id=99), r"annotation 2: there is no image with id 99"),
    ],
)
def test_bad_entries_are_named_and_can_be_skipped(
    coco: tuple[Path, dict[str, Any]], change: Callable[[dict[str, Any]], None], message: str
) -> None:
    root, data = coco
    change(data)
    save(root, data)
    with pytest.raises(UserError, match=message):
        open_split(str(root), "train")
    split = open_split(str(root), "train", ReadOptions(skip_bad=True))
    assert len(split.skipped) == 1
    assert "train2014/1.jpg" in split.labels.images


def test_without_segmentation_there_are_no_masks(coco: tuple[Path, dict[str, Any]]) -> None:
    root, data = coco
    for mark in data["annotations"]:
        del mark["segmentation"]
    save(root, data)
    assert open_split(str(root), "train").masks is None
    assert open_split(str(root), None).masks is None
    assert open_split(str(root), "train").remarks == ()


def test_masks_in_part_are_said_to_be_so(coco: tuple[Path, dict[str, Any]]) -> None:
    root, data = coco
    data["annotations"][1]["segmentation"] = []  # one of the two dogs
    data["annotations"].append({"id": 4, "image_id": 11, "category_id": 3})
    save(root, data)
    split = open_split(str(root), "train")
    assert split.remarks == ("2 of 4 annotated objects have a segmentation",)
    assert split.masks is not None
    objects = split.masks.load(0)
    assert objects is not None and list(objects.present) == [0]  # the mask of one dog would be wrong for two
    assert split.masks.load(1) is None
    assert "2 of 4 annotated objects have a segmentation" in describe(str(root), "train").splits[0].notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("categories"), "it has no list of categories"),
        (lambda d: d.update(categories=None), "it has no list of categories"),
        (lambda d: d.update(categories=[]), "its list of categories is empty"),
        (lambda d: d.pop("annotations"), "it has no list of annotations"),
        (lambda d: d.pop("images"), "it has no list of images"),
        (lambda d: d.update(images=[], annotations=[]), "the split 'train2014' has no usable images"),
    ],
)
def test_a_file_without_a_part_is_refused(
    coco: tuple[Path, dict[str, Any]], change: Callable[[dict[str, Any]], object], message: str
) -> None:
    change(coco[1])
    save(*coco)
    with pytest.raises(UserError, match=message):
        open_split(str(coco[0]), "train")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"images": []}', '{"images": [], "categories": [{"id": 1}]}'])
def test_damaged_files(coco: tuple[Path, dict[str, Any]], text: str) -> None:
    (coco[0] / "annotations" / "instances_train2014.json").write_text(text)
    with pytest.raises(UserError, match=r"instances_train2014\.json"):
        open_split(str(coco[0]), "train")


def test_an_outline_far_outside_its_image_is_refused_before_memory_is_taken(coco: tuple[Path, dict[str, Any]]) -> None:
    folder, content = coco
    content["annotations"][0]["segmentation"] = [[0, 0, 10**9, 1, 1, 0]]
    next((folder / "annotations").glob("instances_train*.json")).write_text(json.dumps(content))
    masks = open_split(str(folder), "train").masks
    assert masks is not None
    with pytest.raises(UserError, match="far outside"):
        masks.load(0)
