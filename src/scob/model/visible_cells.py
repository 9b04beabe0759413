"""Encode the visible cells of each image and average them; hidden cells must not reach the result.

A GPU masks hidden cells. A CPU saves time by leaving them out, which gives the same vectors and gradients.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from scob.model.packed_cells import PackedCells, pack_visible

# Which cells are visible: (B, n) bool; None for all; or those of a packed list, which has no others.
Visible = Tensor | PackedCells | None
# Cells (B, n, C), their positions (n, D) or (B, n, D), or (T, C) and (T, D) if they are packed -> (B, D).
Pooled = Callable[[Tensor, Tensor, Visible], Tensor]


def pool_visible(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor, draws: bool = False) -> Tensor:
    """The mean of the encoded visible cells: (B, n, C), (n, D), (B, n) bool, at least one per row -> (B, D).

    `draws`: `pooled` has dropout, whose draws depend on the shapes of the groups: they stay as they have always been.
    """
    if cells.device.type != "cpu" or not len(cells):  # a GPU would have to wait to learn how many cells are visible
        return pooled(cells, position, seen)
    return (_in_two_groups if draws else _packed)(pooled, cells, position, seen)


def _packed(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor) -> Tensor:
    """The same vectors from a list of the visible cells."""
    packed = pack_visible(seen)
    # An embedding, because several threads add up the gradient of an indexed table in no fixed order.
    return pooled(packed.take(cells), F.embedding(packed.cell, position), packed)


def few_or_many(seen: Tensor) -> list[Tensor]:
    """Rows of the images that show few cells, and of those that show many: (B, n) bool -> one or two groups."""
    few = seen.sum(dim=1) <= seen.shape[1] // 4
    return [rows for rows in (few.nonzero()[:, 0], (~few).nonzero()[:, 0]) if len(rows)]


def _in_two_groups(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor) -> Tensor:
    """The same vectors from the visible cells, padded: images that show few, and those that show many."""
    vectors, groups = [], few_or_many(seen)
    for rows in groups:
        shown = seen[rows]
        widest = int(shown.sum(dim=1).max())
        order = shown.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :widest]  # visible cells first
        shown = shown.gather(1, order)
        where = F.embedding(order, position)
        vectors.append(pooled(cells[rows[:, None], order], where, shown))
    return torch.cat(vectors)[torch.cat(groups).argsort()]


def mean_cell(cells: Tensor, visible: Visible) -> Tensor:
    """The mean over the visible cells: (B, N, D), or (T, D) if they are packed -> (B, D)."""
    if isinstance(visible, PackedCells):
        return visible.mean(cells)
    if visible is not None:
        return masked_mean(cells, visible)
    if cells.device.type != "cpu":
        return cells.mean(dim=1)
    return cells.sum(dim=1) / cells.shape[1]  # the gradient of `mean` would be copied for every cell


def masked_mean(cells: Tensor, seen: Tensor) -> Tensor:
    """The mean over the visible cells: (B, N, D), (B, N) bool -> (B, D)."""
    weight = seen.to(cells.dtype)[..., None]
    return (cells * weight).sum(dim=1) / weight.sum(dim=1)
