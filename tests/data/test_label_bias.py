"""Uneven label draws follow the odds they are given."""

import numpy as np
import pytest

from scob.data.label_bias import label_odds
from scob.data.readers import open_split
from scob.data.split import ArrayImages, ObjectBox, Split
from scob.errors import UserError
from scob.labels import PRESENT, Labels


class Boxes:
    """A large thing near the corner and a small one in the middle, in every image."""

    def load(self, index: int) -> tuple[ObjectBox, ...]:
        return ObjectBox(0, (0.0, 0.0, 0.6, 0.6)), ObjectBox(1, (0.45, 0.45, 0.55, 0.55))


def split(boxes: Boxes | None) -> Split:
    values = np.array([[1, 1, -1]] * 2000, np.int8)
    values[:5, 2] = 1
    labels = Labels(("large", "central", "rare"), tuple(f"{n}" for n in range(2000)), values)
    return Split("train", labels, ArrayImages(np.zeros((2000, 1, 1, 3), np.uint8), "x"), boxes=boxes)


def test_size_location_and_frequency_are_preferred() -> None:
    data = split(Boxes())
    for bias, share in (("size", 0.36 / 0.37), ("location", 1 / (0.2 * 2**0.5) / (1 / (0.2 * 2**0.5) + 1000))):
        odds = label_odds(data, bias)
        drawn = data.labels.single_positive(3, odds)
        assert ((drawn.values == PRESENT).sum(axis=1) == 1).all()
        assert (drawn.values[5:, 0] == PRESENT).mean() == pytest.approx(share, abs=0.02)
    common = label_odds(data, "common")
    assert common[0].tolist() == [2000, 2000, 5]


def test_even_odds_are_even() -> None:
    data = split(None)
    drawn = data.labels.single_positive(0, (data.labels.values == PRESENT).astype(float))
    assert (drawn.values[:, 0] == PRESENT).mean() == pytest.approx(0.5, abs=0.04)


def test_without_boxes_it_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"labels\.bias=size needs boxes"):
        label_odds(split(None), "size")


def test_the_scenes_have_boxes() -> None:
    scenes = open_split("scenes:20x48", "train")
    odds = label_odds(scenes, "size")
    assert ((odds > 0) == (scenes.labels.values == PRESENT)).mean() > 0.95
