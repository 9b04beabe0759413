"""Outlines: where their points are."""

import math
from random import Random

import pytest

from scob.data.scenes.outlines import HOLE, bar, between, box, disc, ring, strokes, towards, whole


def test_random_numbers_stay_in_their_range() -> None:
    random = Random(0)
    assert all(-0.2 <= between(random, -0.2, 0.3) < 0.3 for _ in range(200))
    assert {whole(random, 2, 4) for _ in range(200)} == {2, 3, 4}


def test_a_disc_has_its_radii_and_an_arc_its_ends() -> None:
    assert all(math.hypot(x - 1, (y - 2) * 2) == pytest.approx(0.5) for x, y in disc(1.0, 2.0, 0.5, 0.25))
    arc = disc(0.0, 0.0, 1.0, None, 0.5, 0.5)  # from the left over the top to the right; y points down
    assert arc[0] == pytest.approx((-1.0, 0.0)) and arc[-1] == pytest.approx((1.0, 0.0))
    assert all(y <= 1e-9 and math.hypot(x, y) == pytest.approx(1.0) for x, y in arc)


def test_a_bar_has_its_width() -> None:
    a, b, c, d = bar((0.0, 0.0), (2.0, 0.0), 0.5)
    assert sorted([a, b, c, d]) == [(0.0, -0.25), (0.0, 0.25), (2.0, -0.25), (2.0, 0.25)]
    assert bar((1.0, 1.0), (1.0, 1.0), 0.5) == [(1.0, 1.0)] * 4  # no length, no direction


def test_strokes_join_their_points_and_a_ring_has_a_hole() -> None:
    assert strokes(1, [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)], 0.1) == [
        (1, bar((0.0, 0.0), (1.0, 0.0), 0.1)),
        (1, bar((1.0, 0.0), (1.0, 1.0), 0.1)),
    ]
    assert [role for role, _ in ring(3, 0.0, 0.0, 1.0, 0.2)] == [3, HOLE]


def test_a_box_and_a_direction() -> None:
    assert box(0.0, 1.0, 2.0, 3.0) == [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (0.0, 3.0)]
    assert towards((1.0, 1.0), 0.0, 2.0) == pytest.approx((1.0, 3.0))
    assert towards((1.0, 1.0), 90.0, 2.0) == pytest.approx((3.0, 1.0))
