"""Reading 'scenes': the source's name, splits, classes, and masks that agree with the labels."""

import numpy as np
import pytest

from scob.data.scenes.composition import CLASSES, EXPECTED_POSITIVES
from scob.data.scenes.reader import parse, read
from scob.data.split import ReadOptions
from scob.errors import UserError
from scob.labels import PRESENT


def test_the_name_says_how_many_scenes_and_how_large() -> None:
    assert parse("scenes") == (2000, 128)
    assert parse("scenes:500x96") == (500, 96)


def test_read_gives_labels_images_and_masks_of_the_same_scene() -> None:
    split = read("scenes:12x64", "train", ReadOptions())
    assert len(split) == len(split.images) == 12
    assert split.images.load(0).shape == (64, 64, 3)
    assert split.expected_positives == EXPECTED_POSITIVES
    assert split.masks is not None
    for row in range(12):
        objects = split.masks.load(row)
        assert objects is not None
        assert set(objects.present) == set(np.flatnonzero(split.labels.values[row] == PRESENT))
        assert all(mask.shape == (64, 64) and mask.any() for mask in objects.present.values())
        assert not objects.void.any()


def test_boxes_are_around_the_masks() -> None:
    split = read("scenes:12x64", "train", ReadOptions(classes=("tree", "person")))
    assert split.boxes is not None and split.masks is not None
    for row in range(12):
        boxes, objects = split.boxes.load(row) or (), split.masks.load(row)
        assert objects is not None
        assert {box.label for box in boxes} == set(objects.present)
        for label, mask in objects.present.items():
            own = np.array([box.corners for box in boxes if box.label == label]) * 64
            rows, columns = np.nonzero(mask)
            around = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
            assert (*own[:, :2].min(axis=0), *own[:, 2:].max(axis=0)) == around


def test_val_is_half_as_many_and_none_is_everything() -> None:
    val = read("scenes:8x48", "val", ReadOptions())
    both = read("scenes:8x48", None, ReadOptions())
    assert len(val) == 4 and len(both) == 12
    assert both.labels.images[8:] == val.labels.images
    assert np.array_equal(both.images.load(9), val.images.load(1))
    assert np.array_equal(both.labels.values[8:], val.labels.values)


def test_classes_may_be_chosen_and_ordered() -> None:
    everything = read("scenes:30x48", "train", ReadOptions())
    some = read("scenes:30x48", "train", ReadOptions(classes=("tree", "person")))
    columns = [CLASSES.index(name) for name in ("tree", "person")]
    assert np.array_equal(some.labels.values, everything.labels.values[:, columns])
    assert some.masks is not None
    for row in range(30):
        objects = some.masks.load(row)
        assert objects is not None
        assert set(objects.present) == set(np.flatnonzero(some.labels.values[row] == PRESENT))


@pytest.mark.parametrize(
    ("source", "split", "classes", "message"),
    [
        ("scenes:10by64", "train", None, "scenes:500x96"),
        ("scenes:10x8", "train", None, "32-1024"),
        ("scenes:1x64", "train", None, "too few"),
        ("scenes:4x64", "test", None, "it has: train, val"),
        ("scenes:4x64", "train", ("dragon",), "'dragon'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    source: str, split: str, classes: tuple[str, ...] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(source, split, ReadOptions(classes=classes))
