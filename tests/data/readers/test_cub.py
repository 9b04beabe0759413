"""CUB: attributes, the official split, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, splits_of
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


@pytest.fixture
def cub(tmp_path: Path, paint: Painter) -> Path:
    root = tmp_path / "CUB_200_2011"
    for name in ("001.A/a.jpg", "002.B/b.jpg", "002.B/c.jpg"):
        paint(root / "images" / name)
    (root / "images.txt").write_text("1 001.A/a.jpg\n2 002.B/b.jpg\n3 002.B/c.jpg\n")
    (root / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n")
    (tmp_path / "attributes.txt").write_text("1 has_bill_shape::curved\n2 has_bill_shape::dagger\n")
    (root / "attributes").mkdir()
    # image attribute present certainty time; certainty 1 is 'not visible', 2 'guessing'; one line has stray fields
    answers = "1 1 1 2 3.5\n1 2 0 1 1.0\n2 1 0 4 1\n2 2 1 3 0 0 1.2\n3 1 1 4 1\n"
    (root / "attributes" / "image_attribute_labels.txt").write_text(answers)
    return root


def test_answers_count_whatever_the_certainty(cub: Path) -> None:
    assert infer_format(str(cub)) == infer_format(str(cub.parent)) == "cub"
    assert splits_of(str(cub)) == ("train", "test")
    train = open_split(str(cub), "train")
    assert train.labels.classes == ("has_bill_shape::curved", "has_bill_shape::dagger")
    assert train.labels.images == ("001.A/a.jpg", "002.B/c.jpg")
    np.testing.assert_array_equal(train.labels.values, [[1, -1], [1, 0]])
    np.testing.assert_array_equal(open_split(str(cub), "test").labels.values, [[-1, 1]])
    assert len(open_split(str(cub.parent), None)) == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("images.txt", "1 001.A/a.jpg\n3 002.B/none.jpg\n2 002.B/b.jpg\n", r"images\.txt line 2: .*does not exist"),
        ("images.txt", "1 001.A/a.jpg\nx\n", r"images\.txt line 2: 'x' is not a number and a name"),
        ("train_test_split.txt", "1 1\n2 0\n", r"images\.txt line 3: train_test_split\.txt does not say"),
        ("train_test_split.txt", "1 1\n2\n", r"train_test_split\.txt line 2"),
        ("attributes/image_attribute_labels.txt", "1 9 1 4 1\n", r"image_attribute_labels\.txt line 1: .*attribute 9"),
        ("attributes/image_attribute_labels.txt", "9 1 1 4 1\n", r"image_attribute_labels\.txt line 1: .*no image 9"),
        ("attributes/image_attribute_labels.txt", "1 1 yes\n", r"image_attribute_labels\.txt line 1"),
    ],
)
def test_bad_lines_are_named(cub: Path, name: str, text: str, message: str) -> None:
    (cub / name).write_text(text)
    with pytest.raises(UserError, match=message):
        open_split(str(cub), "train")


def test_skip_bad(cub: Path) -> None:
    (cub / "images" / "001.A" / "a.jpg").unlink()
    split = open_split(str(cub), "train", ReadOptions(skip_bad=True))
    assert split.labels.images == ("002.B/c.jpg",)
    assert len(split.skipped) == 1


def test_no_attributes_file_and_no_split(cub: Path) -> None:
    with pytest.raises(UserError, match="no split 'val'; it has: train, test"):
        open_split(str(cub), "val")
    (cub.parent / "attributes.txt").unlink()
    with pytest.raises(UserError, match=r"no attributes\.txt"):
        open_split(str(cub), "train")
