"""From a map to a region of the image: a mask at any size, its box, its run lengths."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

Box = tuple[float, float, float, float]


def enlarge(heat: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Bilinear interpolation between cell centres: (h, w) -> (height, width)."""
    cells = torch.from_numpy(heat)[None, None]
    enlarged = F.interpolate(cells, size=(height, width), mode="bilinear", align_corners=False)
    return np.asarray(enlarged[0, 0].numpy(), dtype=np.float32)


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
