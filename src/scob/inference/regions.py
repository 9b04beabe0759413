"""From a map to a region of the image: a mask at any size, its box, its run lengths."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

Box = tuple[float, float, float, float]
SPECK = 0.25  # parts of a mask below this share of its largest part are left out of the box


def enlarge(heat: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Bilinear interpolation between cell centres: (h, w) -> (height, width)."""
    cells = torch.from_numpy(heat)[None, None]
    enlarged = F.interpolate(cells, size=(height, width), mode="bilinear", align_corners=False)
    return np.asarray(enlarged[0, 0].numpy(), dtype=np.float32)


def without_specks(heat: NDArray[np.float32], threshold: float, least: float = SPECK) -> NDArray[np.float32]:
    """The map (h, w) without connected parts above `threshold` that are much smaller than the largest one."""
    inside = heat >= threshold
    parts = np.where(inside, np.arange(1, heat.size + 1).reshape(heat.shape), 0)
    while True:  # each cell takes the highest number among its neighbours, until every part has one number
        padded = np.pad(parts, 1)
        shifted = [padded[y : y + heat.shape[0], x : x + heat.shape[1]] for y in range(3) for x in range(3)]
        spread = np.where(inside, np.max(shifted, axis=0), 0)
        if (spread == parts).all():
            break
        parts = spread
    sizes = np.bincount(parts.ravel(), minlength=heat.size + 1)
    sizes[0] = 0
    return np.where(inside & (sizes[parts] < least * sizes.max()), np.float32(0), heat)


def box_of(mask: NDArray[np.bool_]) -> Box | None:
    """The smallest box around a mask: x0, y0, x1, y1 in fractions of the image; None for an empty mask."""
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    height, width = mask.shape
    return (
        float(columns[0] / width),
        float(rows[0] / height),
        float((columns[-1] + 1) / width),
        float((rows[-1] + 1) / height),
    )


def rle(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """COCO's compressed run-length encoding, as plain JSON."""
    from pycocotools import mask as coco

    encoded = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": [int(side) for side in encoded["size"]], "counts": encoded["counts"].decode("ascii")}
