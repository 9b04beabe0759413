"""Leaving hidden cells out is masking them: the same vectors, the same gradients, the same bits every time."""

import pytest
import torch

from scob.config import ModelSettings
from scob.model.smt import SemanticMaskedTransformer
from scob.model.visible_cells import Visible, masked_mean, mean_cell, pool_visible
from support.small_smt import make


@pytest.mark.parametrize("position", ["input", "qk"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoding_the_seen_cells_alone_is_masking_the_others(features: torch.Tensor, position: str, norm: str) -> None:
    """The CPU leaves hidden cells out, a GPU masks them: vectors and all gradients are the same."""
    smt = make(position=position, norm=norm).double()
    counts = torch.tensor([1, 20, 4, 15, 5, 0])  # few, many, and none: all
    features = features.double().repeat(2, 1, 1, 1)
    keep = torch.rand(6, 20, generator=torch.Generator().manual_seed(2)).argsort(dim=1) < counts[:, None]
    seen = keep | (counts == 0)[:, None]

    def masked(x: torch.Tensor) -> torch.Tensor:
        return masked_mean(smt.encode(x.flatten(2).transpose(1, 2), smt.positions(5, 4), seen), seen)

    results = []
    for encode in (masked, lambda x: smt(x, keep.view(6, 5, 4))):
        leaf = features.clone().requires_grad_()
        vectors = encode(leaf)
        results.append((vectors, *torch.autograd.grad(vectors.square().sum(), [leaf, *smt.parameters()])))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-10)


def test_the_gradient_has_the_same_bits_every_time_with_two_threads() -> None:
    torch.manual_seed(0)
    smt = SemanticMaskedTransformer(8, (14, 14), ModelSettings(width=128, layers=1, feedforward=16))
    features, keep = torch.randn(64, 8, 14, 14), torch.rand(64, 14, 14) < 0.2
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        smt.eval()
        results = [torch.autograd.grad(smt(features, keep).square().sum(), list(smt.parameters())) for _ in range(6)]
    finally:
        torch.set_num_threads(threads)
    for again in results[1:]:
        assert all(torch.equal(one, other) for one, other in zip(results[0], again, strict=True))


def test_only_visible_cells_are_encoded_and_rows_keep_their_order() -> None:
    """On a CPU with dropout: few cells and many cells in two calls, each as wide as its widest image."""
    seen = torch.zeros(3, 8, dtype=torch.bool)
    seen[0, :5], seen[1, 7], seen[2, 2:6] = True, True, True
    cells = torch.arange(24.0).view(3, 8, 1)
    shapes = []

    def pooled(cells: torch.Tensor, position: torch.Tensor, seen: Visible) -> torch.Tensor:
        shapes.append(tuple(cells.shape))
        return mean_cell(cells + position, seen)

    means = pool_visible(pooled, cells, torch.full((8, 1), 100.0), seen, draws=True)
    assert shapes == [(1, 1, 1), (2, 5, 1)]
    assert means[:, 0].tolist() == [102.0, 115.0, 119.5]


def test_masked_mean() -> None:
    cells, seen = torch.arange(12.0).view(1, 4, 3), torch.tensor([[True, False, True, False]])
    assert masked_mean(cells, seen).tolist() == mean_cell(cells, seen).tolist() == [[3.0, 4.0, 5.0]]
    assert mean_cell(cells, None).tolist() == [[4.5, 5.5, 6.5]]


def test_dropout_draws_for_the_groups_it_always_had() -> None:
    """A run that was begun with dropout continues with the same draws; without dropout the cells are packed."""
    shapes: list[tuple[int, ...]] = []

    def pooled(cells: torch.Tensor, position: torch.Tensor, visible: Visible) -> torch.Tensor:
        shapes.append(tuple(cells.shape[:-1]))
        return mean_cell(cells + position, visible)

    cells, position = torch.rand(12, 8, 4), torch.rand(8, 4)
    seen = torch.arange(8) < torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 2, 3])[:, None]
    with_draws = pool_visible(pooled, cells, position, seen, draws=True)
    assert shapes == [(5, 2), (7, 8)]  # few cells, and many
    shapes.clear()
    without = pool_visible(pooled, cells, position, seen)
    assert shapes == [(43,)]
    torch.testing.assert_close(with_draws, without)
