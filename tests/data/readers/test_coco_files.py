"""COCO files wherever they lie: annotations.json, Roboflow's folders, a file by its name."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, read_split, splits_of, taken_as
from scob.data.readers.coco_files import coco_files, count_categories, is_coco
from scob.errors import UserError

Painter = Callable[..., Path]
NAMES = ("cat", "dog")


def annotations(images: list[str], umbrella: bool = False) -> str:
    categories = [{"id": n, "name": name, "supercategory": "pets"} for n, name in enumerate(NAMES, 1)]
    if umbrella:
        categories.insert(0, {"id": 0, "name": "pets", "supercategory": "none"})
    marks = [
        {"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [1, 1, 4, 4], "area": 16, "iscrowd": 0}
        for n in range(len(images))
    ]
    listed = [{"id": n, "file_name": name, "width": 24, "height": 18} for n, name in enumerate(images)]
    return json.dumps({"info": {}, "images": listed, "annotations": marks, "categories": categories})


@pytest.mark.parametrize("place", ["annotations.json", "annotations/annotations.json", "_annotations.coco.json"])
@pytest.mark.parametrize("images", ["", "images/"])
def test_one_file_beside_its_images(tmp_path: Path, paint: Painter, place: str, images: str) -> None:
    for name in ("a.png", "b.png"):
        paint(tmp_path / f"{images}{name}")
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(annotations(["a.png", "b.png"]))
    for source in (str(tmp_path), str(tmp_path / place)):
        assert infer_format(source) == "coco"
        assert taken_as(source) == "COCO, 2 classes"
        split = open_split(source, None)
        assert split.labels.classes == NAMES
        np.testing.assert_array_equal(split.labels.values, [[1, -1], [-1, 1]])
        assert split.images.load(0, 8).shape == (8, 8, 3)


def test_roboflow_has_a_folder_per_split_and_an_umbrella_category(tmp_path: Path, paint: Painter) -> None:
    for part in ("train", "valid"):
        paint(tmp_path / part / "a.jpg")
        (tmp_path / part / "_annotations.coco.json").write_text(annotations(["a.jpg"], umbrella=True))
    source = str(tmp_path)
    assert infer_format(source) == "coco"
    assert splits_of(source) == ("train", "valid")
    assert taken_as(source) == "COCO, 2 classes"
    assert open_split(source, "val").labels.classes == NAMES


def test_other_json_is_not_coco(tmp_path: Path) -> None:
    for text in ("[]", '{"images": 3}', "", '{"a": 1}'):
        (tmp_path / "x.json").write_text(text)
        assert not is_coco(tmp_path / "x.json")
    assert coco_files(tmp_path) == {}


def test_classes_of_a_large_file_are_counted_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_text(annotations([f"{n:06d}.jpg" for n in range(20_000)]))
    assert (tmp_path / "big.json").stat().st_size > 2 << 20
    assert is_coco(tmp_path / "big.json")
    assert count_categories(tmp_path / "big.json") == 2


def test_a_folder_without_annotations(tmp_path: Path) -> None:
    for read in (
        lambda: taken_as(str(tmp_path), format="coco"),
        lambda: read_split(str(tmp_path), None, format="coco"),
    ):
        with pytest.raises(UserError, match="has no COCO annotations"):
            read()
