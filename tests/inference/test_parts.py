"""The parts of a map: one mask and one box each, without specks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scob.inference.parts import CELL, Place, number_parts
from scob.inference.regions import box_of, enlarge

sides = st.tuples(st.integers(1, 9), st.integers(1, 9))
heats = arrays(np.float32, sides, elements=st.sampled_from([0.0, 0.4, 0.5, 0.9, 1.0]))


@given(arrays(np.float32, sides, elements=st.sampled_from([0.0, 0.3, 0.9])))
def test_parts_are_those_of_the_smooth_map_by_size_without_specks(heat: np.ndarray) -> None:
    from scipy.ndimage import label

    height, width = heat.shape
    pixels, count = label(enlarge(heat, CELL * height, CELL * width) >= 0.5, np.ones((3, 3)))
    found = pixels[CELL // 2 :: CELL, CELL // 2 :: CELL]  # at the centres of the cells
    sizes = {n: int((found == n).sum()) for n in range(1, count + 1)}
    first = {n: np.flatnonzero(found.ravel() == n)[0] for n in sizes}
    order = sorted((n for n in sizes if sizes[n] >= 0.5 * max(sizes.values())), key=lambda n: (-sizes[n], first[n]))
    expected = np.zeros_like(found)
    for number, n in enumerate(order, 1):
        expected[found == n] = number
    assert (number_parts(heat, 0.5, 0.5) == expected).all()


def test_cells_that_meet_at_a_corner_are_one_part_only_if_the_map_joins_them() -> None:
    apart = np.array([[0.9, 0.0], [0.0, 0.9]], np.float32)
    joined = np.array([[0.9, 0.4], [0.4, 0.9]], np.float32)
    for heat, parts in ((apart, 2), (joined, 1), (apart[::-1].copy(), 2), (joined[::-1].copy(), 1)):
        assert number_parts(heat, 0.5).max() == parts


@given(heats)
def test_the_mask_is_made_of_its_boxes_parts_and_each_box_fits_its_part(heat: np.ndarray) -> None:
    place = Place.of(heat)
    if place is None:
        assert not (heat >= 0.5).any()
        return
    size = heat.shape[0] * CELL, heat.shape[1] * CELL
    masks = place.masks(*size)
    assert len(place.boxes) == len(masks) == place.parts.max()
    assert (place.mask(*size) == masks.any(axis=0)).all()
    assert [box_of(mask) for mask in masks] == list(place.boxes)


def test_a_speck_is_neither_in_the_mask_nor_in_a_box() -> None:
    heat = np.zeros((12, 12), np.float32)
    heat[1:5, 1:5] = 1
    heat[10, 10] = 1
    place = Place.of(heat)
    assert place is not None and len(place.boxes) == 1 and place.boxes[0][2] < 0.5
    assert not place.mask(120, 120)[60:, 60:].any()


def test_two_objects_have_two_boxes_the_larger_first() -> None:
    heat = np.zeros((12, 12), np.float32)
    heat[1:4, 1:4] = 1
    heat[7:11, 7:11] = 1
    place = Place.of(heat)
    assert place is not None and len(place.boxes) == 2
    assert np.allclose(place.boxes[0], (7 / 12, 7 / 12, 11 / 12, 11 / 12), atol=0.02)
    assert np.allclose(place.boxes[1], (1 / 12, 1 / 12, 4 / 12, 4 / 12), atol=0.02)


def test_a_map_of_nothing_has_no_place_even_with_a_threshold_of_0() -> None:
    assert Place.of(np.zeros((4, 4), np.float32), 0.0) is None
