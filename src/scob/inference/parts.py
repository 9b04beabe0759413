"""The place of a class in an image: the object-like parts of its map, one mask and one box for each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scob.inference.regions import Box, box_of, enlarge

SPECK = 0.25  # a part of a mask below this share of its largest part is a speck: it is left out
CELL = 15  # pixels along a cell's side at which boxes are measured; odd, so that one lies at the cell's centre

Heat = NDArray[np.float32]


@dataclass(frozen=True)
class Place:
    """Where a class is: its map `heat` (h, w) in [0, 1] without specks, and `parts` (h, w), each cell's part.

    Part 0 is outside, 1 the largest part, 2 the next one. The mask and the boxes are those of the parts.
    """

    heat: Heat
    parts: NDArray[np.int64]
    threshold: float = 0.5

    @classmethod
    def of(cls, heat: Heat, threshold: float = 0.5, least: float = SPECK) -> "Place | None":
        """The parts of a map that reach the threshold; None if no cell does."""
        inside = _inside(heat, threshold)
        parts = number_parts(inside, least)
        without_specks = np.where(inside & (parts == 0), np.float32(0), heat)
        return cls(without_specks, parts, threshold) if parts.any() else None

    def masks(self, height: int, width: int) -> NDArray[np.bool_]:
        """The mask of each part at any size, (P, height, width), without the cells of other parts."""
        numbers = range(1, int(self.parts.max()) + 1)
        fields = (np.where((self.parts != n) & (self.parts > 0), np.float32(0), self.heat) for n in numbers)
        return np.stack([_inside(enlarge(field, height, width), self.threshold) for field in fields])

    def mask(self, height: int, width: int) -> NDArray[np.bool_]:
        """The mask of all parts at any size, (height, width)."""
        return np.asarray(self.masks(height, width).any(axis=0))

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The box of each part, the largest part first: x0, y0, x1, y1 in fractions of the image."""
        rows, columns = self.heat.shape
        boxes = (box_of(mask) for mask in self.masks(CELL * rows, CELL * columns))
        return tuple(box for box in boxes if box is not None)


def _inside(heat: Heat, threshold: float) -> NDArray[np.bool_]:
    """What reaches the threshold, but for rounding; a map of 0 never does."""
    return np.asarray((heat >= threshold * (1 - 1e-5)) & (heat > 0))


def number_parts(inside: NDArray[np.bool_], least: float = SPECK) -> NDArray[np.int64]:
    """Connected parts (diagonals count) of the cells `inside` (h, w), numbered from 1 by size; smaller ones are 0.

    Smaller means: fewer cells than `least` times the largest part has. Of equal parts, the upper left one comes first.
    """
    height, width = inside.shape
    parts = np.where(inside, np.arange(inside.size, 0, -1).reshape(inside.shape), 0)
    while True:  # each cell takes the highest number among its neighbours, until every part has one number
        padded = np.pad(parts, 1)
        shifted = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
        spread = np.where(inside, np.max(shifted, axis=0), 0)
        if (spread == parts).all():
            break
        parts = spread
    sizes = np.bincount(parts.ravel(), minlength=inside.size + 1)
    sizes[0] = 0
    kept = np.flatnonzero((sizes > 0) & (sizes >= least * sizes.max()))
    order = kept[np.lexsort((-kept, -sizes[kept]))]
    numbers = np.zeros(inside.size + 1, np.int64)
    numbers[order] = np.arange(1, len(order) + 1)
    return np.asarray(numbers[parts])
