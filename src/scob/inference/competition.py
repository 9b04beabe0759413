"""From the maps of one image's classes to their places: classes compete for cells, and a vague map has no place."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scob.inference.parts import Heat, Place

SHARE = 0.8  # a class keeps a cell if its evidence there is at least this share of the strongest class's
CLEAR = 0.25  # a place is clear if its map is, on average, at least this much higher inside than outside


def compete(heats: Heat, scores: Sequence[float] | NDArray[np.float32], share: float = SHARE) -> Heat:
    """The maps (C, h, w) of one image's classes, each 0 in the cells that another class has much more evidence for.

    The evidence is the map times the class's score (C,), because a map only says where a class is most likely to be,
    not how likely. Classes with nearly the same evidence (by `share`) all keep the cell: 1 leaves it to the strongest
    alone, 0 to everyone.
    """
    evidence = heats * np.asarray(scores, np.float32)[:, None, None]
    keeps = evidence >= share * evidence.max(axis=0)
    return np.where(keeps, heats, np.float32(0))


def contrast(heat: Heat, inside: NDArray[np.bool_]) -> float:
    """How much higher a map (h, w) is inside a region than outside, on average: -1 to 1.

    It is near 0 for a map that is spread all over, and for the scraps that stronger classes leave. A region of nothing
    or of the whole image has no contrast.
    """
    if not inside.any() or inside.all():
        return 0.0
    return float(heat[inside].mean() - heat[~inside].mean())


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
        is_clear = place is not None and contrast(heat, place.parts > 0) >= clear
        places.append(place if is_clear else None)
    return places
