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
        parts = number_parts(heat, threshold, least)
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


def number_parts(heat: Heat, threshold: float, least: float = SPECK) -> NDArray[np.int64]:
    """The connected parts of a map (h, w) at a threshold, numbered from 1 by their size in cells; 0 is outside.

    Cells are connected as the smooth map between their centres is: neighbours always, cells that meet at a corner if
    the map does not fall below the threshold between them. Parts with fewer cells than `least` times the largest part's
    are specks, and 0. Of equal parts, the upper left one comes first.
    """
    inside = _inside(heat, threshold)
    falling, rising = _corners(heat, threshold)
    parts = np.where(inside, np.arange(heat.size, 0, -1).reshape(heat.shape), 0)
    while True:  # each cell takes the highest number it is connected to, until every part has one number
        before = parts.copy()
        for one, other, joined in (
            (parts[1:], parts[:-1], inside[1:] & inside[:-1]),
            (parts[:, 1:], parts[:, :-1], inside[:, 1:] & inside[:, :-1]),
            (parts[1:, 1:], parts[:-1, :-1], falling),
            (parts[1:, :-1], parts[:-1, 1:], rising),
        ):
            highest = np.maximum(one, other)
            np.maximum(one, highest, out=one, where=joined)
            np.maximum(other, highest, out=other, where=joined)
        if (parts == before).all():
            break
    sizes = np.bincount(parts.ravel(), minlength=heat.size + 1)
    sizes[0] = 0
    kept = np.flatnonzero((sizes > 0) & (sizes >= least * sizes.max()))
    order = kept[np.lexsort((-kept, -sizes[kept]))]
    numbers = np.zeros(heat.size + 1, np.int64)
    numbers[order] = np.arange(1, len(order) + 1)
    return np.asarray(numbers[parts])


def _corners(heat: Heat, threshold: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which cells are connected across a corner, (h - 1, w - 1): by the falling and by the rising diagonal.

    Between four cell centres the map is bilinear. If two opposite ones are inside and the others outside, the lowest
    point of the best way between them is the saddle.
    """
    a, b, c, d = heat[:-1, :-1], heat[:-1, 1:], heat[1:, :-1], heat[1:, 1:]
    bend = a + d - b - c
    saddle = (a * d - b * c) / np.where(bend == 0, 1, bend)
    over = _inside(saddle.astype(np.float32), threshold)
    inside = _inside(heat, threshold)
    falling = inside[:-1, :-1] & inside[1:, 1:] & (bend > 0) & over
    rising = inside[:-1, 1:] & inside[1:, :-1] & (bend < 0) & over
    return falling, rising
