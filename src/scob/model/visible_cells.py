"""Encode the visible cells of each image and average them; hidden cells must not reach the result.

A GPU masks hidden cells. A CPU saves time by leaving them out, which gives the same vectors and gradients.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

# Cells (B, n, C), their positions (n, D) or (B, n, D), which of them are visible (B, n) or None for all -> (B, D).
Pooled = Callable[[Tensor, Tensor, Tensor | None], Tensor]


SMALLEST_GROUP = 6  # images; smaller groups are padded less but need more operations


def pool_visible(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor, draws: bool = False) -> Tensor:
    """The mean of the encoded visible cells: (B, n, C), (n, D), (B, n) bool, at least one per row -> (B, D).

    `draws`: `pooled` has dropout, whose draws depend on the shapes of the groups: they stay as they have always been.
    """
    if cells.device.type != "cpu" or not len(cells):  # a GPU would have to wait to learn how many cells are visible
        return pooled(cells, position, seen)
    return _leave_hidden_out(pooled, cells, position, seen, few_or_many(seen) if draws else alike(seen))


def few_or_many(seen: Tensor) -> list[Tensor]:
    """Rows of the images that show few cells, and of those that show many: (B, n) bool -> one or two groups."""
    few = seen.sum(dim=1) <= seen.shape[1] // 4
    return [rows for rows in (few.nonzero()[:, 0], (~few).nonzero()[:, 0]) if len(rows)]


def alike(seen: Tensor) -> list[Tensor]:
    """Rows of the images, in groups that show about equally many cells: (B, n) bool -> groups of about equal size."""
    order = seen.sum(dim=1).argsort(stable=True)
    return list(order.tensor_split(max(1, len(order) // SMALLEST_GROUP)))


def _leave_hidden_out(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor, groups: list[Tensor]) -> Tensor:
    """The same vectors from the visible cells alone. Each group of images is padded to its widest image."""
    vectors = []
    for rows in groups:
        shown = seen[rows]
        widest = int(shown.sum(dim=1).max())
        order = shown.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :widest]  # visible cells first
        shown = shown.gather(1, order)
        # An embedding, because several threads add up the gradient of an indexed table in no fixed order.
        where = F.embedding(order, position)
        vectors.append(pooled(cells[rows[:, None], order], where, shown))
    return torch.cat(vectors)[torch.cat(groups).argsort()]


def mean_cell(cells: Tensor, seen: Tensor | None) -> Tensor:
    """The mean over the cells, or over the visible ones: (B, N, D), (B, N) bool or None -> (B, D)."""
    if seen is not None:
        return masked_mean(cells, seen)
    if cells.device.type != "cpu":
        return cells.mean(dim=1)
    return cells.sum(dim=1) / cells.shape[1]  # the gradient of `mean` would be copied for every cell


def masked_mean(cells: Tensor, seen: Tensor) -> Tensor:
    """The mean over the visible cells: (B, N, D), (B, N) bool -> (B, D)."""
    weight = seen.to(cells.dtype)[..., None]
    return (cells * weight).sum(dim=1) / weight.sum(dim=1)
