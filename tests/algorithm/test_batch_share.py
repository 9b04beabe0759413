"""The share of each image in a step: processes that share a batch add up to one process with the whole batch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from scob.algorithm.batch_share import BatchShare, weighted_mean
from scob.algorithm.losses import l_class
from scob.parallel import Processes


def test_without_weights_it_is_the_mean_and_with_weights_the_weighted_sum() -> None:
    values = [0.5, 2.0, 4.0]
    assert weighted_mean(torch.tensor(values), None).item() == pytest.approx(sum(values) / 3)
    weights = [0.2, 0.0, 0.8]
    expected = sum(v * w for v, w in zip(values, weights, strict=True))
    assert weighted_mean(torch.tensor(values), torch.tensor(weights)).item() == pytest.approx(expected)


def shared_loss(rows: list[list[int]], p: Tensor, y: Tensor, z: Tensor) -> tuple[float, Tensor]:
    """L_class of a batch dealt to several processes: the sum of their losses, and their gradients put together.

    Each process runs twice: first to learn what it contributes to every sum, then with the sums of all.
    """
    contributions: list[list[Tensor]] = [[] for _ in rows]
    leaves = [p[own].clone().requires_grad_() for own in rows]

    def losses(total_of: Callable[[int], Callable[[Tensor], Tensor]]) -> list[Tensor]:
        results = []
        for rank, own in enumerate(rows):
            processes = Processes()
            processes.count, processes.rank = len(rows), rank
            processes.total = total_of(rank)  # type: ignore[method-assign]
            share = BatchShare(torch.full((len(own),), 1 / len(p)), processes)
            results.append(l_class(leaves[rank], y[own], z[own], 1.5, share))
        return results

    def record(rank: int) -> Callable[[Tensor], Tensor]:
        def total(value: Tensor) -> Tensor:
            contributions[rank].append(value.detach())
            return value.detach()

        return total

    losses(record)
    sums = [torch.stack(values).sum() for values in zip(*contributions, strict=True)]

    def replay(rank: int) -> Callable[[Tensor], Tensor]:
        remaining = iter(sums)
        return lambda value: next(remaining)

    parts = losses(replay)
    for part in parts:
        part.backward()
    gradient = torch.zeros_like(p)
    for own, leaf in zip(rows, leaves, strict=True):
        assert leaf.grad is not None
        gradient[own] = leaf.grad
    return sum(part.item() for part in parts), gradient


@pytest.mark.parametrize("rows", [[[0, 2, 4], [1, 3]], [[0], [1, 2, 3], [4]], [[4, 3, 2, 1, 0]]])
def test_processes_that_share_a_batch_have_the_loss_and_gradient_of_one(rows: list[list[int]]) -> None:
    draw = torch.Generator().manual_seed(2)
    p, y = torch.rand(5, 7, generator=draw).double(), torch.rand(5, 7, generator=draw).double()
    z = torch.randint(-1, 2, (5, 7), generator=draw, dtype=torch.int8)
    alone = p.clone().requires_grad_()
    loss = l_class(alone, y, z, 1.5)
    loss.backward()
    shared, gradient = shared_loss(rows, p, y, z)
    assert alone.grad is not None
    assert shared == pytest.approx(loss.item(), rel=1e-6)
    assert torch.allclose(gradient, alone.grad, rtol=1e-6)


def test_a_term_that_all_compute_is_counted_once_but_keeps_its_gradient() -> None:
    processes = Processes()
    processes.count = 4
    term = torch.tensor(2.0, requires_grad=True)
    share = BatchShare(None, processes).counted_once(term)
    assert share.item() == pytest.approx(0.5)
    share.backward()
    assert term.grad == 1
    assert BatchShare().counted_once(term) is term
