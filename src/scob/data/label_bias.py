"""Which label an annotator who names one thing would name: uneven odds, as in studies of label bias.

People do not name the things in an image with equal odds. `size` prefers what is large (the area of its boxes),
`location` what is near the centre (one over the distance, per box), `common` what is frequent in the data set.
"""

import numpy as np
from numpy.typing import NDArray

from scob.data.split import Split
from scob.errors import UserError
from scob.labels import PRESENT

BIASES = ("uniform", "size", "location", "common")
NEAREST = 1e-3  # of the image's side: a box in the very centre


def label_odds(split: Split, bias: str) -> NDArray[np.float64]:
    """(N, L) the odds that each label of an image is the one that is named; not normalised, 0 where it is not shown."""
    present = split.labels.values == PRESENT
    if bias == "common":
        return np.where(present, present.sum(axis=0).astype(np.float64), 0.0)
    if split.boxes is None:
        raise UserError(
            f"labels.bias={bias} needs boxes, and the split {split.name!r} has none: use labels.bias=common or uniform"
        )
    odds = np.zeros(present.shape)
    for row in range(len(split)):
        for box in split.boxes.load(row) or ():
            x0, y0, x1, y1 = box.corners
            away = float(np.hypot((x0 + x1) / 2 - 0.5, (y0 + y1) / 2 - 0.5))
            odds[row, box.label] += (x1 - x0) * (y1 - y0) if bias == "size" else 1 / max(away, NEAREST)
    # An image whose labels have no box at all (VOC's difficult objects may count as absent): equal odds.
    odds = np.where(present, odds, 0.0)
    bare = present.any(axis=1) & (odds.sum(axis=1) == 0)
    odds[bare] = present[bare]
    return odds
