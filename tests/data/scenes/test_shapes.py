"""The shapes: every object fits its frame, uses the four colours at most, and varies."""

from random import Random

import pytest

from scob.data.scenes.outlines import HOLE
from scob.data.scenes.shapes import SHAPES, spikes


def test_there_are_sixteen_classes_with_the_most_frequent_first() -> None:
    assert len(SHAPES) == 16
    assert list(SHAPES)[:3] == ["person", "tree", "car"]


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_fits_its_frame_and_varies(name: str) -> None:
    drawn = [SHAPES[name](Random(seed)) for seed in range(20)]
    for parts in drawn:
        assert {role for role, _ in parts} <= {HOLE, 1, 2, 3, 4}
        assert any(role != HOLE for role, _ in parts)
        assert all(len(outline) >= 3 for _, outline in parts)
        assert all(abs(x) <= 1.2 and abs(y) <= 1.2 for _, outline in parts for x, y in outline)
    assert len({str(parts) for parts in drawn}) > 1
    assert SHAPES[name](Random(7)) == SHAPES[name](Random(7))


def test_a_star_has_two_points_for_each_spike() -> None:
    assert len(spikes(5, 1.0, 0.4)) == 10
    assert spikes(5, 1.0, 0.4)[0] == pytest.approx((0.0, -1.0))
