"""The visible cells of several images as one long list, without the hidden ones: what a CPU computes under a mask.

Everything but attention looks at one cell at a time, so it needs neither hidden cells nor padding. For attention the
images are sorted by how many cells they show and divided into a few groups; each group is padded to its widest image.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

RATIO = 1.4  # of the cells of the widest image of a group to those of its narrowest, at most
NARROW = 16  # cells: up to this width, padding costs less than the operations of another group

# Queries, keys and values (b, n, D) each, and the visible keys (b, 1, 1, n) bool -> (b, n, D).
Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Group:
    """Images that attend together: where their cells are in the list, and in the padded table (b, n) of the group."""

    rows: slice
    padded: Tensor  # (b, n): the row of each place; 0 where there is no cell
    shown: Tensor  # (b, 1, 1, n) bool: where there is one
    places: Tensor  # (t,): the place of each row in the flattened table


@dataclass(frozen=True)
class PackedCells:
    """Where the T cells of a list come from: `image` and `cell` (T,); `own` (B, T) bool says which an image has."""

    image: Tensor
    cell: Tensor
    own: Tensor
    groups: list[Group]

    def take(self, cells: Tensor) -> Tensor:
        """The visible ones of all cells: (B, n, C) -> (T, C)."""
        return cells[self.image, self.cell]

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, attention: Attention) -> Tensor:
        """`attention` among the cells of each image: (T, D) each -> (T, D)."""
        mixed = []
        for group in self.groups:
            # An embedding, because several threads add up the gradient of an indexed table in no fixed order.
            q, k, v = (F.embedding(group.padded, each[group.rows]) for each in (queries, keys, values))
            mixed.append(attention(q, k, v, group.shown).flatten(0, 1).index_select(0, group.places))
        return torch.cat(mixed)

    def mean(self, cells: Tensor) -> Tensor:
        """The mean over the cells of each image: (T, D) -> (B, D)."""
        return self.own.to(cells.dtype) @ cells / self.own.sum(dim=1, keepdim=True)


def pack_visible(seen: Tensor) -> PackedCells:
    """The visible cells, by image, those that show few first: seen (B, n) bool, at least one per row. For a CPU."""
    counts = seen.sum(dim=1)
    order = counts.argsort(stable=True)
    rank, cell = seen[order].nonzero(as_tuple=True)
    image = order[rank]
    groups = []
    first, start = 0, 0
    for size in group_sizes(counts[order].tolist()):
        some = counts[order[first : first + size]]
        widest, total = int(some[-1]), int(some.sum())
        shown = torch.arange(widest) < some[:, None]
        places = shown.flatten().nonzero()[:, 0]
        padded = torch.zeros(shown.numel(), dtype=torch.int64)
        padded[places] = torch.arange(total)
        groups.append(Group(slice(start, start + total), padded.view_as(shown), shown[:, None, None, :], places))
        first, start = first + size, start + total
    return PackedCells(image, cell, image == torch.arange(len(seen))[:, None], groups)


def group_sizes(counts: list[int]) -> list[int]:
    """How many images each group has, of images that show so many cells each, in ascending order."""
    sizes: list[int] = []
    widest = 0
    for count in reversed(counts):
        if sizes and (widest <= NARROW or RATIO * count >= widest):
            sizes[-1] += 1
        else:
            sizes.append(1)
            widest = count
    return sizes[::-1]
