"""The memory that the scale benchmark reports is what the tables take."""

from pathlib import Path

import pytest

from scob.bench.scale import CAPACITY, DIMENSION, SimulatedStep, bench_scale, growth
from scob.errors import UserError
from scob.model.row_tables import RowStorage


@pytest.mark.parametrize("classes", [20, 80])
def test_an_image_takes_the_bytes_that_are_stated(classes: int) -> None:
    small, large = (SimulatedStep(n, classes, 4, RowStorage("host")) for n in (10, 1010))
    assert (large.row_bytes - small.row_bytes) / 1000 == 13 * classes + 143
    assert large.tree_bytes == small.tree_bytes
    assert large.tree_bytes == pytest.approx((classes + 1) * CAPACITY * DIMENSION * 4, rel=0.02)


def test_steps_move_only_their_rows(tmp_path: Path) -> None:
    step = SimulatedStep(500, 5, 8, RowStorage("disk", tmp_path))
    before = step.estimator.logits.clone()
    step(0)
    moved = (step.estimator.logits != before).any(dim=1)
    assert 1 <= int(moved[:-1].sum()) <= 8
    assert int(step.estimator.visits[:-1].sum()) == int(moved[:-1].sum())


def test_sizes_go_up_one_at_a_time(tmp_path: Path) -> None:
    found = bench_scale((100, 1000), (3, 6), batch=4, steps=5, folder=tmp_path)
    assert [(s.images, s.classes) for s in found["images"]] == [(100, 3), (1000, 3)]
    assert [(s.images, s.classes) for s in found["classes"]] == [(100, 3), (100, 6)]
    assert growth(found["images"]) >= 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="at least one"):
        bench_scale((), (3,))


@pytest.mark.slow
def test_a_step_with_a_million_images_costs_what_one_with_a_thousand_costs() -> None:
    found = bench_scale((1_000, 1_000_000), (20,))
    assert growth(found["images"]) <= 1.2
