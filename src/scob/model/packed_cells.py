"""The visible cells of several images as one long list, without the hidden ones: what a CPU computes under a mask.

Everything but attention looks at one cell at a time, so it needs neither hidden cells nor padding. For attention the
images are sorted by how many cells they show and divided into a few groups; each group is padded to its widest image.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

RATIO = 1.4  # of the cells of the widest image of a group to those of its narrowest, at most
NARROW = 16  # cells: up to this width, padding costs less than the operations of another group

# Queries, keys and values (b, n, D) each, and the visible keys (b, 1, 1, n) bool -> (b, n, D).
Attention = Callable[[Iterable[Tensor], Tensor], Tensor]


@dataclass(frozen=True)
class Group:
    """Images that attend together: where their t cells, which follow each other in the list, are in a padded table."""

    padded: Tensor  # (b, n): which of the t cells is in each place; the first one where there is none
    shown: Tensor  # (b, 1, 1, n) bool: where there is one
    places: Tensor  # (t,): the place of each cell in the flattened table


@dataclass(frozen=True)
class PackedCells:
    """Where the T cells of a list come from: `image` and `cell` (T,); each image has `counts` (B, 1) of them."""

    image: Tensor
    cell: Tensor
    counts: Tensor
    groups: list[Group]

    def take(self, cells: Tensor) -> Tensor:
        """The visible ones of all cells: (B, n, C) -> (T, C)."""
        return cells[self.image, self.cell]

    def attend(self, projected: Tensor, attention: Attention) -> Tensor:
        """`attention` among the cells of each image: queries, keys and values side by side (T, 3 * D) -> (T, D)."""
        mixed = []
        parts = projected.split_with_sizes([len(group.places) for group in self.groups])
        for group, part in zip(self.groups, parts, strict=True):
            # An embedding, because several threads add up the gradient of an indexed table in no fixed order.
            padded = F.embedding(group.padded, part).chunk(3, dim=-1)
            mixed.append(attention(padded, group.shown).flatten(0, 1).index_select(0, group.places))
        return torch.cat(mixed)

    def mean(self, cells: Tensor) -> Tensor:
        """The mean over the cells of each image: (T, D) -> (B, D)."""
        total = cells.new_zeros(len(self.counts), cells.shape[1]).index_add(0, self.image, cells)
        return total / self.counts


def pack_visible(seen: Tensor) -> PackedCells:
    """The visible cells, by image, those that show few first: seen (B, n) bool, at least one per row. For a CPU."""
    counts = seen.sum(dim=1)
    order = counts.argsort(stable=True)
    rank, cell = seen[order].nonzero(as_tuple=True)
    image = order[rank]
    groups, first = [], 0
    for size in group_sizes(counts[order].tolist()):
        some = counts[order[first : first + size]]
        shown = torch.arange(int(some[-1])) < some[:, None]
        places = shown.flatten().nonzero()[:, 0]
        padded = torch.zeros(shown.numel(), dtype=torch.int64)
        padded[places] = torch.arange(len(places))
        groups.append(Group(padded.view_as(shown), shown[:, None, None, :], places))
        first += size
    return PackedCells(image, cell, counts[:, None], groups)


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
