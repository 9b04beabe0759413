"""The drawn scenes: the same bytes every time, visible objects, and the statistics they promise."""

import hashlib
from random import Random

import numpy as np
import pytest

from scob.data.scenes import composition as scenes
from scob.labels import PRESENT

PINNED = "369f5ae7b8ab894f3794f6810e1f815a3c5f4e2104e7192311f2f1e75404261c"


@pytest.fixture(scope="module")
def drawn() -> scenes.Scenes:
    return scenes.draw(150, 128, 0, "train")


@pytest.fixture(scope="module")
def class_sets() -> np.ndarray:
    """The classes of many scenes that are not drawn: (N, L) bool."""
    present = np.zeros((20_000, len(scenes.CLASSES)), dtype=bool)
    for row in range(len(present)):
        present[row, scenes.choose_classes(Random(row))] = True
    return present


def test_same_seed_same_bytes() -> None:
    few = scenes.draw(4, 128, 7, "train")
    assert hashlib.sha256(few.images.tobytes() + few.owners.tobytes()).hexdigest() == PINNED


def test_a_scene_does_not_depend_on_how_many_are_drawn(drawn: scenes.Scenes) -> None:
    few = scenes.draw(3, 128, 0, "train")
    assert np.array_equal(few.images, drawn.images[:3])
    assert np.array_equal(few.owners, drawn.owners[:3])
    assert few.objects == drawn.objects[:3]


def test_splits_and_seeds_differ() -> None:
    images = [scenes.draw(1, 64, seed, split).images for seed, split in ((0, "train"), (0, "val"), (1, "train"))]
    assert len({image.tobytes() for image in images}) == 3


def test_every_object_can_be_seen(drawn: scenes.Scenes) -> None:
    for row, objects in enumerate(drawn.objects):
        assert objects
        assert drawn.owners[row].max() == len(objects)
        for index in range(len(objects)):
            assert drawn.mask(row, index).sum() >= 20


def test_objects_are_a_tenth_to_six_tenths_of_the_side(drawn: scenes.Scenes) -> None:
    spans = []
    for row, objects in enumerate(drawn.objects):
        for index in range(len(objects)):
            y, x = np.nonzero(drawn.mask(row, index))
            spans.append(max(np.ptp(y), np.ptp(x)) + 1)
    assert max(spans) <= 0.6 * 128 + 1
    assert min(spans) < 0.16 * 128 and max(spans) > 0.5 * 128


def test_one_to_five_classes_and_the_mean_that_is_declared(drawn: scenes.Scenes, class_sets: np.ndarray) -> None:
    assert set(np.bincount(class_sets.sum(axis=1)).nonzero()[0]) == {1, 2, 3, 4, 5}
    assert abs(class_sets.sum(axis=1).mean() - scenes.EXPECTED_POSITIVES) < 0.05
    counts = (drawn.values() == PRESENT).sum(axis=1)
    assert counts.min() >= 1 and counts.max() <= 5
    assert abs(counts.mean() - scenes.EXPECTED_POSITIVES) < 0.35  # 150 scenes: three standard errors


def test_companions_come_four_times_in_five(class_sets: np.ndarray) -> None:
    for name, (companion, _) in scenes.COMPANIONS.items():
        with_it = class_sets[class_sets[:, scenes.CLASSES.index(name)], scenes.CLASSES.index(companion)].mean()
        assert with_it == pytest.approx(0.8, abs=0.04), name


def test_frequencies_have_a_long_tail(class_sets: np.ndarray) -> None:
    counts = np.sort(class_sets.sum(axis=0))[::-1]
    assert counts[0] > 5 * counts[-1]
    assert counts[:4].sum() > 0.4 * counts.sum()


def test_colour_does_not_tell_the_class(drawn: scenes.Scenes) -> None:
    """The mean colour of a class's objects is close to that of all objects."""
    colours: dict[int, list[np.ndarray]] = {}
    for row, objects in enumerate(drawn.objects):
        for index, kind in enumerate(objects):
            colours.setdefault(kind, []).append(drawn.images[row][drawn.mask(row, index)].mean(axis=0))
    everything = np.array([c for some in colours.values() for c in some])
    for some in colours.values():
        error = everything.std(axis=0) / np.sqrt(len(some))
        assert (np.abs(np.mean(some, axis=0) - everything.mean(axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("side", [32, 300])
def test_other_sizes(side: int) -> None:
    few = scenes.draw(3, side, 0, "train")
    assert few.images.shape == (3, side, side, 3)
    assert all(few.mask(row, index).any() for row in range(3) for index in range(len(few.objects[row])))
