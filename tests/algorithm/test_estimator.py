"""The label estimator: each row takes its own Adam steps."""

import pytest
import torch

from scob.algorithm.estimator import Estimator


@pytest.fixture
def observed() -> torch.Tensor:
    values = torch.zeros(7, 4, dtype=torch.int8)
    values[:6, 1], values[2, 3] = 1, -1
    return values


def make(observed: torch.Tensor, seed: int = 0) -> Estimator:
    return Estimator(observed, torch.arange(len(observed)) * 7919, seed)


def test_it_starts_as_the_paper_says(observed: torch.Tensor) -> None:
    start = make(observed).probabilities()
    assert start.shape == (6, 4)
    assert (start[:, 1] > 0.99).all()
    assert start[2, 3] < 0.01
    unknown = start[observed[:6] == 0]
    assert ((unknown >= 0.2 - 1e-6) & (unknown <= 0.8 + 1e-6)).all()
    assert unknown.unique().numel() == unknown.numel()
    assert not torch.equal(start, make(observed, 1).probabilities())
    many = make(torch.zeros(500, 20, dtype=torch.int8)).probabilities()
    assert many.mean() == pytest.approx(0.5, abs=0.01)
    assert many.std() == pytest.approx(0.6 / 12**0.5, abs=0.01)


def test_rows_outside_the_batch_stay_to_the_bit(observed: torch.Tensor) -> None:
    estimator = make(observed)
    before = [b.clone() for b in estimator.buffers()]
    estimator.move(torch.tensor([4, 1]), torch.randn(2, 4), 0.01)
    others = torch.tensor([0, 2, 3, 5, 6])
    for old, new in zip(before, estimator.buffers(), strict=True):
        assert torch.equal(old[others], new[others])
        assert not torch.equal(old[[1, 4]], new[[1, 4]])


def test_each_row_takes_adams_steps(observed: torch.Tensor) -> None:
    estimator = make(observed)
    rows = [torch.nn.Parameter(r.clone()) for r in estimator.logits]
    adams = [torch.optim.Adam([r], lr=0.05) for r in rows]
    for visit in ([0, 3], [3, 5], [3], [0, 5, 1]):
        gradient = torch.randn(len(visit), 4)
        estimator.move(torch.tensor(visit), gradient, 0.05)
        for n, g in zip(visit, gradient, strict=True):
            rows[n].grad = g
            adams[n].step()
    assert torch.allclose(estimator.logits, torch.stack(list(rows)).detach(), atol=1e-6)


def test_a_batchs_rows_are_a_leaf(observed: torch.Tensor) -> None:
    estimator = make(observed)
    leaf = estimator.rows(torch.tensor([2, 0]))
    leaf.sigmoid().sum().backward()
    assert leaf.is_leaf
    assert leaf.grad is not None
    assert torch.equal(leaf.detach(), estimator.logits[[2, 0]])


def test_padding_may_repeat(observed: torch.Tensor) -> None:
    estimator = make(observed)
    before = estimator.logits.clone()
    estimator.move(torch.tensor([1, 6, 6]), torch.cat((torch.ones(1, 4), torch.zeros(2, 4))), 0.01)
    assert torch.equal(estimator.logits[6], before[6])
    assert torch.isfinite(estimator.logits).all()
