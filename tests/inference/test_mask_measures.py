"""Masks, peaks and boxes against naive counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scob.data.split import ObjectBox, ObjectMasks
from scob.inference.explain import Explanation
from scob.inference.mask_measures import (
    MeasuredPair,
    box_iou,
    measure_pair,
    overlap,
    peak_of,
    share,
    single_object,
    summarise,
)
from scob.inference.parts import Place

NOTHING = np.zeros((20, 40), bool)


def explained(heat: np.ndarray) -> Explanation:
    heat = heat.astype(np.float32)
    return Explanation("image 0", "cat", 0.9, heat, Place.of(heat))


def square(top: int, left: int, bottom: int, right: int) -> np.ndarray:
    """A mask of 20 x 40 pixels."""
    mask = NOTHING.copy()
    mask[top:bottom, left:right] = True
    return mask


@pytest.mark.parametrize("seed", range(5))
def test_overlap_is_a_loop_over_pixels(seed: int) -> None:
    mask, truth, void = np.random.default_rng(seed).random((3, 7, 9)) < 0.4
    both = only_mask = only_truth = 0
    for y in range(7):
        for x in range(9):
            if void[y, x]:
                continue
            both += bool(mask[y, x] and truth[y, x])
            only_mask += bool(mask[y, x] and not truth[y, x])
            only_truth += bool(truth[y, x] and not mask[y, x])
    assert overlap(mask, truth, void) == (both, only_mask, only_truth)


corner = st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 12), st.integers(1, 12)).filter(
    lambda box: box[0] < box[2] and box[1] < box[3]
)


@given(corner, corner)
def test_the_overlap_of_boxes_is_that_of_their_pixels(
    a: tuple[int, int, int, int], b: tuple[int, int, int, int]
) -> None:
    def painted(box: tuple[int, int, int, int]) -> np.ndarray:
        pixels = np.zeros((12, 12), bool)
        pixels[box[1] : box[3], box[0] : box[2]] = True
        return pixels

    expected = (painted(a) & painted(b)).sum() / (painted(a) | painted(b)).sum()
    fractions = [tuple(end / 12 for end in box) for box in (a, b)]
    assert box_iou(*fractions) == pytest.approx(expected)  # type: ignore[arg-type]


def test_the_peak_is_the_centre_of_the_highest_cell() -> None:
    heat = np.zeros((2, 4), np.float32)
    assert peak_of(heat) is None
    heat[1, 2] = heat[1, 3] = 0.4
    assert peak_of(heat) == (2.5 / 4, 1.5 / 2)


def test_a_mask_is_compared_at_the_size_of_the_segmentation() -> None:
    """A 2 x 4 map whose left half is hot, on 20 x 40 pixels: interpolation puts the edge on the midline."""
    e = explained(np.repeat([[1, 1, 0, 0]], 2, axis=0))
    objects = ObjectMasks({3: square(0, 0, 20, 10)}, square(0, 30, 20, 40))
    pair = measure_pair(e, 3, objects, None)
    assert pair.pixels == (200, 200, 0) and pair.iou == 0.5 and pair.clear
    assert pair.peak_on_mask is True and pair.peak_in_box is None and pair.box_iou is None
    hidden = ObjectMasks({3: square(0, 0, 20, 10)}, square(0, 10, 20, 20))  # what the mask has too much is void
    assert measure_pair(e, 3, hidden, None).iou == 1


def test_the_pointing_game_has_no_tolerance_and_a_void_peak_is_not_counted() -> None:
    heat = np.zeros((2, 4))
    heat[0, 1] = 1  # its centre is pixel (5, 15)
    for truth, void, answer in (
        (square(5, 15, 6, 16), NOTHING, True),
        (square(5, 16, 6, 40), NOTHING, False),  # one pixel beside
        (square(0, 20, 20, 40), square(5, 15, 6, 16), None),
    ):
        assert measure_pair(explained(heat), 0, ObjectMasks({0: truth}, void), None).peak_on_mask is answer
    inside, beside = ObjectBox(0, (0.375, 0.25, 0.5, 0.5), difficult=True), ObjectBox(0, (0.4, 0.0, 1.0, 1.0))
    assert measure_pair(explained(heat), 0, None, (beside, inside)).peak_in_box is True
    assert measure_pair(explained(heat), 0, None, (beside,)).peak_in_box is False
    assert measure_pair(explained(heat), 1, None, (inside,)).peak_in_box is None


def test_boxes_are_measured_for_a_single_object_that_is_not_difficult() -> None:
    box = (0.0, 0.0, 0.5, 1.0)
    easy, hard, other = ObjectBox(0, box), ObjectBox(0, box, difficult=True), ObjectBox(1, box)
    assert single_object((easy, other), 0) == box
    assert single_object((hard,), 0) is single_object((easy, hard), 0) is single_object((other,), 0) is None


def test_the_box_of_the_largest_part_counts() -> None:
    heat = np.zeros((4, 8))
    heat[:, 0] = 0.6
    heat[:, 4:] = 1  # the larger part: the right half, and half a cell of interpolation
    e = explained(heat)
    assert len(e.boxes) == 2
    right = measure_pair(e, 0, None, (ObjectBox(0, (0.5, 0.0, 1.0, 1.0)),))
    assert right.box_iou == pytest.approx(box_iou(e.boxes[0], (0.5, 0.0, 1.0, 1.0))) and right.box_iou > 0.8
    left = measure_pair(e, 0, None, (ObjectBox(0, (0.0, 0.0, 0.125, 1.0)),))
    assert left.box_iou == 0


def test_no_clear_place_is_wrong_everywhere_and_counted() -> None:
    nothing = Explanation("image 0", "cat", 0.9, np.zeros((2, 4), np.float32))
    truth = ObjectMasks({0: square(0, 0, 10, 10)}, NOTHING)
    pair = measure_pair(nothing, 0, truth, (ObjectBox(0, (0.0, 0.0, 1.0, 1.0)),))
    assert (pair.iou, pair.peak_on_mask, pair.peak_in_box, pair.box_iou, pair.clear) == (0, False, False, 0, False)
    measures = summarise([pair], ["cat"])
    assert measures.no_clear_place == measures.pairs == 1
    assert measures.masks is not None and measures.masks.mean_iou == measures.masks.precision == 0


def test_means_over_pairs_and_over_classes() -> None:
    pairs = [
        MeasuredPair(0, True, (1, 1, 0), True, True, 0.5),
        MeasuredPair(0, True, (3, 0, 0), False, True, 0.49),
        MeasuredPair(2, True, (1, 0, 3), True, None, None),
        MeasuredPair(1, True, None, None, False, None),  # boxed, but not segmented
    ]
    measures = summarise(pairs, ["a", "b", "c"])
    masks = measures.masks
    assert masks is not None
    assert masks.mean_iou == pytest.approx(100 * (0.5 + 1 + 0.25) / 3)
    assert masks.per_class == {"a": 75, "c": 25} and masks.mean_iou_over_classes == 50
    assert masks.precision == pytest.approx(100 * 5 / 6) and masks.recall == pytest.approx(100 * 5 / 8)
    assert (measures.pairs, masks.pairs) == (4, 3)
    assert measures.pointing == share([True, False, True]) and measures.pointing_in_boxes == share([True, True, False])
    assert measures.boxes is not None and (measures.boxes.right, measures.boxes.pairs) == (1, 2)
    assert measures.boxes.percent == 50


def test_what_the_data_cannot_say_is_none() -> None:
    measures = summarise([MeasuredPair(0, True, None, None, True, None)], ["a"])
    assert measures.masks is measures.pointing is measures.boxes is None
    assert share([]) is None
