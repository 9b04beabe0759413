"""From the maps of one image's classes to their places: classes compete for cells, and a vague map has no place."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scob.inference.parts import Heat, Place

SHARE = 0.8  # a class keeps a cell if its evidence there is at least this share of the strongest class's
CLEAR = 0.12  # a place is clear if its share of the map exceeds its share of the image by at least this much


def compete(heats: Heat, scores: Sequence[float] | NDArray[np.float32], share: float = SHARE) -> Heat:
    """The maps (C, h, w) of one image's classes, each 0 in the cells that another class has much more evidence for.

    The evidence is the map times the class's score (C,), because a map only says where a class is most likely to be,
    not how likely. Classes with nearly the same evidence (by `share`) all keep the cell: 1 leaves it to the strongest
    alone, 0 to everyone.
    """
    evidence = heats * np.asarray(scores, np.float32)[:, None, None]
    keeps = evidence >= share * evidence.max(axis=0)
    return np.where(keeps, heats, np.float32(0))


def concentration(heat: Heat, inside: NDArray[np.bool_]) -> float:
    """How much more of a map (h, w) lies in a region than of the image does: the share of its sum, minus that of cells.

    It is near 0 for a map that is spread all over, for a few specks of one, and for the scraps that stronger classes
    leave; and 0 for a map or a region of nothing.
    """
    whole = float(heat.sum())
    return float(heat[inside].sum()) / whole - float(inside.mean()) if whole > 0 else 0.0


def places_of(
    heats: Heat,
    scores: Sequence[float] | NDArray[np.float32],
    threshold: float = 0.5,
    share: float = SHARE,
    clear: float = CLEAR,
) -> list[Place | None]:
    """The place of each class of one image, from their maps (C, h, w) and scores (C,); None: no clear place."""
    places: list[Place | None] = []
    for heat, own in zip(heats, compete(heats, scores, share), strict=True):
        place = Place.of(own, threshold)
        is_clear = place is not None and concentration(heat, place.parts > 0) >= clear
        places.append(place if is_clear else None)
    return places
