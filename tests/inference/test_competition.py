"""The competition of one image's classes for its cells, and places that are clear or not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scob.inference.competition import compete, concentration, places_of

values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
several = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5)), elements=values)


@given(several, st.data(), st.sampled_from([0.0, 0.5, 0.8, 1.0]))
def test_a_cell_goes_to_the_classes_with_nearly_the_strongest_evidence(heats: np.ndarray, data, share: float) -> None:
    scores = data.draw(arrays(np.float32, len(heats), elements=st.sampled_from([0.25, 0.5, 1.0])))
    own = compete(heats, scores, share)
    for y in range(heats.shape[1]):
        for x in range(heats.shape[2]):
            strongest = max(float(heat[y, x]) * float(score) for heat, score in zip(heats, scores, strict=True))
            for c, (heat, score) in enumerate(zip(heats, scores, strict=True)):
                keeps = np.float32(heat[y, x] * score) >= np.float32(share) * np.float32(strongest)
                assert own[c, y, x] == (heat[y, x] if keeps else 0)


def sheep_and_person() -> np.ndarray:
    """A sheep on the left that the person's map also covers, and a person on the right."""
    heats = np.zeros((2, 10, 10), np.float32)
    heats[0, 3:8, 1:5] = 1.0
    heats[1, 3:8, 1:5] = 0.7
    heats[1, 2:8, 7:9] = 1.0
    return heats


def test_a_persons_mask_does_not_lie_on_the_sheep() -> None:
    sheep, person = places_of(sheep_and_person(), [0.9, 0.9])
    assert sheep is not None and person is not None
    assert len(person.boxes) == 1 and person.boxes[0][0] > 0.6
    assert not (sheep.mask(100, 100) & person.mask(100, 100)).any()


def test_near_equals_share_a_cell_and_a_sure_class_beats_an_unsure_one() -> None:
    heats = np.full((2, 1, 1), 1.0, np.float32)
    assert compete(heats, [0.9, 0.8]).tolist() == [[[1.0]], [[1.0]]]
    assert compete(heats, [0.9, 0.4]).tolist() == [[[1.0]], [[0.0]]]


def test_a_class_alone_keeps_its_map() -> None:
    heat = np.random.default_rng(0).random((1, 6, 6), np.float32)
    assert (compete(heat, [0.01]) == heat).all()


def test_concentration_is_the_share_of_the_map_beyond_the_share_of_the_image() -> None:
    heat = np.array([[1.0, 0.8], [0.2, 0.0]], np.float32)
    assert concentration(heat, heat > 0.5) == pytest.approx(0.9 - 0.5)
    assert concentration(heat, heat > 0.9) == pytest.approx(0.5 - 0.25)
    assert concentration(heat, heat > 2) == concentration(heat, heat >= 0) == concentration(0 * heat, heat > 0.5) == 0


@pytest.mark.parametrize(
    "heat",
    [
        np.zeros((8, 8), np.float32),  # no positive gradient
        np.full((8, 8), 1.0, np.float32),  # the same everywhere
        0.4 + 0.2 * (np.indices((8, 8)).sum(axis=0) % 2).astype(np.float32),  # spread all over
    ],
)
def test_a_map_that_says_nothing_has_no_clear_place(heat: np.ndarray) -> None:
    assert places_of(heat[None], [0.9]) == [None]


def test_the_scraps_that_a_stronger_class_leaves_are_no_place() -> None:
    heats = np.zeros((2, 12, 12), np.float32)
    heats[0, 4:9, 4:9] = 1.0
    heats[1, 4:9, 4:11] = 1.0  # the sheep again, and two columns of cells beside it
    sheep, person = places_of(heats, [0.95, 0.5])
    assert sheep is not None and person is not None and person.boxes[0][0] > 0.7
    heats[1, 4:8, 9:11] = 0.0  # two cells are left of them
    assert places_of(heats, [0.95, 0.5])[1] is None


def test_a_speck_in_a_haze_is_no_place_and_an_object_is() -> None:
    heat = np.full((14, 14), 0.3, np.float32)
    heat[3, 3] = 1.0
    assert places_of(heat[None], [0.9]) == [None]
    heat[3:8, 3:8] = 1.0
    assert places_of(heat[None], [0.9]) != [None]
