"""The plan of a run: every image once per epoch, the same for any number of processes and after a resume."""

import numpy as np
import pytest
import torch

from scob.algorithm.sampling import Batch, Plan, to_device
from scob.labels import Labels


@pytest.fixture
def labels() -> Labels:
    values = np.zeros((23, 4), np.int8)
    values[np.arange(20), np.arange(20) % 3] = 1
    values[5, 0] = 1  # two positives
    values[20, 3] = 1  # alone in its class; 21 and 22 have none
    return Labels(("a", "b", "c", "d"), tuple(f"image {n}" for n in range(23)), values)


def test_an_epoch_shows_every_image_once_in_an_order_of_its_own(labels: Labels) -> None:
    plan = Plan(labels, 5, 0)
    orders = [np.concatenate([b.rows for b in plan.epoch(e)]) for e in (0, 1)]
    assert all(sorted(o) == list(range(23)) for o in orders)
    assert orders[0].tolist() != orders[1].tolist()
    assert [len(b.rows) for b in plan.epoch(0)] == [5, 5, 5, 5, 3]
    assert plan.steps == 5
    assert Plan(labels, 5, 1)._share(np.arange(5), 0).keys.tolist() != plan._share(np.arange(5), 0).keys.tolist()


def test_the_chosen_label_is_an_observed_positive(labels: Labels) -> None:
    for epoch in range(3):
        for batch in Plan(labels, 5, 0).epoch(epoch):
            for row, c in zip(batch.rows, batch.chosen, strict=True):
                assert (c == -1 and row in (21, 22)) or labels.values[row, c] == 1


def test_of_two_positives_each_is_drawn_at_times(labels: Labels) -> None:
    plan = Plan(labels, 23, 0)
    drawn = {int(b.chosen[b.rows == 5][0]) for e in range(20) for b in plan.epoch(e)}
    assert drawn == {0, 2}


def test_a_positive_is_another_image_of_the_label_if_there_is_one(labels: Labels) -> None:
    seen = set()
    for epoch in range(10):
        for batch in Plan(labels, 5, 0).epoch(epoch):
            for row, c, other in zip(batch.rows, batch.chosen, batch.positives, strict=True):
                if row in (20, 21, 22):
                    assert other == row
                else:
                    assert other != row
                    assert labels.values[other, c] == 1
                    seen.add((int(row), int(other)))
    assert len(seen) > 60  # drawn anew in every epoch


def test_every_other_image_of_the_label_is_the_positive_equally_often() -> None:
    """Six images with one label, 2,000 epochs: chi squared over the 30 pairs, with 24 degrees of freedom."""
    values = np.array([[1, 0], [0, 1]] * 6, np.int8)  # a second class, so that a row is not its position in the class
    plan = Plan(Labels(("a", "b"), tuple(f"image {n}" for n in range(12)), values), 12, 0)
    drawn = np.zeros((12, 12))
    for epoch in range(2000):
        for batch in plan.epoch(epoch):
            np.add.at(drawn, (batch.rows, batch.positives), 1)
    pairs = drawn[::2, ::2][~np.eye(6, dtype=bool)]
    assert pairs.sum() == 6 * 2000 and not drawn.diagonal().any()
    assert ((pairs - 400) ** 2 / 400).sum() < 66.3, "exceeded once in 100,000 times if the draw is uniform"


def test_a_resumed_run_sees_the_batches_that_are_left(labels: Labels) -> None:
    epoch, rest = list(Plan(labels, 5, 0).epoch(2)), list(Plan(labels, 5, 0).epoch(2, skip=3))
    assert len(rest) == 2
    for a, b in zip(epoch[3:], rest, strict=True):
        assert all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("rows", "keys", "chosen", "positives"))


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_same_global_batch(labels: Labels, processes: int) -> None:
    alone = list(Plan(labels, 5, 0).epoch(1))
    shares = [list(Plan(labels, 5, 0, rank, processes).epoch(1)) for rank in range(processes)]
    for complete, *parts in zip(alone, *shares, strict=True):
        assert len({len(p.rows) for p in parts}) == 1
        real = [(r, k, c, o) for p in parts for r, k, c, o in zip(p.rows, p.keys, p.chosen, p.positives, strict=True)]
        expected = list(zip(complete.rows, complete.keys, complete.chosen, complete.positives, strict=True))
        assert sorted(r for r in real if r[0] < 23) == sorted(expected)
        assert sum(p.weight.sum() for p in parts) == pytest.approx(1, rel=1e-5)
        assert all(
            w == 0 and c == -1 for p in parts for r, w, c in zip(p.rows, p.weight, p.chosen, strict=True) if r == 23
        )


def test_padding_fills_the_last_batch(labels: Labels) -> None:
    last = list(Plan(labels, 5, 0, pad=True).epoch(0))[-1]
    assert len(last.rows) == 5
    assert (last.rows == 23).sum() == 2
    batch = to_device(last, 0, 4, torch.device("cpu"))
    assert batch.weight.sum().item() == pytest.approx(1)
    assert batch.rows.tolist() == last.rows.tolist()
    assert (batch.chosen[batch.rows == 23] == -1).all()


def test_three_processes_share_ten_images_without_repeating_or_losing_one() -> None:
    labels = Labels(("a", "b"), tuple("0123456789"), np.tile(np.array([[1, 0], [0, 1]], np.int8), (5, 1)))
    for batch in (1, 2, 3, 4, 7, 10, 16):
        for epoch in range(3):
            seen: list[int] = []
            batches = [list(b.rows) for b in Plan(labels, batch, seed=1).epoch(epoch)]
            for number, shares in enumerate(
                zip(*(Plan(labels, batch, 1, rank, 3, pad=True).epoch(epoch) for rank in range(3)), strict=True)
            ):
                assert len({len(share.rows) for share in shares}) == 1
                real = [int(row) for share in shares for row, w in zip(share.rows, share.weight, strict=True) if w]
                assert sorted(real) == sorted(int(row) for row in batches[number])
                assert sum(float(share.weight.sum()) for share in shares) == pytest.approx(1)
                seen += real
            assert sorted(seen) == list(range(10))


def test_draws_do_not_depend_on_the_number_of_processes() -> None:
    labels = Labels(("a", "b"), tuple("0123456789"), np.ones((10, 2), np.int8))

    def draws(count: int) -> dict[int, tuple[int, int, int]]:
        drawn = {}
        for rank in range(count):
            for share in Plan(labels, 4, 7, rank, count, pad=count > 1).epoch(2):
                for row, key, chosen, positive in zip(
                    share.rows, share.keys, share.chosen, share.positives, strict=True
                ):
                    if row < 10:
                        drawn[int(row)] = (int(key), int(chosen), int(positive))
        return drawn

    assert draws(1) == draws(2) == draws(3)


def test_the_first_images_of_a_batch_keep_everything_else() -> None:
    rows = torch.arange(6)
    batch = Batch(rows, rows, rows, rows, torch.full((6,), 1 / 6), epoch=1, step=7, images=rows[:, None])
    part = batch.first(2)
    for values in (part.rows, part.keys, part.chosen, part.positives):
        assert values.tolist() == [0, 1]
    assert len(part.weight) == 2 and part.images is not None and part.images.shape == (2, 1)
    assert (part.epoch, part.step, part.positive_images) == (1, 7, None)
    assert batch.first(7).rows.tolist() == rows.tolist()
