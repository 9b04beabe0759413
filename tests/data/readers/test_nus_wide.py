"""NUS-WIDE in its official layout, small."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, splits_of, taken_as
from scob.errors import UserError

Painter = Callable[..., Path]


@pytest.fixture
def nus(tmp_path: Path, paint: Painter) -> Path:
    root = tmp_path / "NUS-WIDE"
    lists = {"Train": ["actor\\0001_1.jpg", "zoo\\0002_2.jpg"], "Test": ["zoo\\0003_3.jpg"]}
    labels = {"Train": {"airport": "1\n0\n", "zoo": "0\n1\n"}, "Test": {"airport": "0 \n", "zoo": "1 \n"}}
    for folder in ("ImageList", "Groundtruth/TrainTestLabels"):
        (root / folder).mkdir(parents=True)
    for part, names in lists.items():
        (root / "ImageList" / f"{part}Imagelist.txt").write_text("\n".join(names) + "\n")
        for name in names:
            paint(root / "Flickr" / name.replace("\\", "/"))
        for concept, text in labels[part].items():
            (root / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(text)
    (root / "Concepts81.txt").write_text("airport\nzoo\n")
    return root


def test_both_splits(nus: Path) -> None:
    for source in (str(nus), str(nus.parent)):
        assert infer_format(source) == "nuswide"
        assert taken_as(source) == "NUS-WIDE, 2 classes"
        assert splits_of(source) == ("train", "test")
        train = open_split(source, "train").labels
        assert train.images == ("Flickr/actor/0001_1.jpg", "Flickr/zoo/0002_2.jpg")
        np.testing.assert_array_equal(train.values, [[1, -1], [-1, 1]])
        np.testing.assert_array_equal(open_split(source, "test").labels.values, [[-1, 1]])


def test_labels_that_do_not_fit_the_list(nus: Path) -> None:
    (nus / "ImageList" / "TestImagelist.txt").write_text("zoo\\0003_3.jpg\nzoo\\0002_2.jpg\n")
    with pytest.raises(UserError, match="the test list names 2 images, but there are labels of 1"):
        open_split(str(nus), "test")
    (nus / "Groundtruth" / "TrainTestLabels" / "Labels_zoo_Test.txt").write_text("2\n")
    with pytest.raises(UserError, match=r"Labels_zoo_Test\.txt line 1: '2' is neither 0 nor 1"):
        open_split(str(nus), "test")
