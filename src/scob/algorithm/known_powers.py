"""The powers of `likeness` that have been found already: those of cached features never change.

Finding a power takes most of the time of a mask on a CPU. They are not part of a run's state: a run that is
resumed finds the same ones again.
"""

import torch
from torch import Tensor

from scob.algorithm.cam import find_power


class KnownPowers:
    """The logarithm of the power of each of N images (and padding) and of its mirror image; NaN if it is not known."""

    def __init__(self, images: int) -> None:
        self.table = torch.full((2 * images + 2,), torch.nan)

    def look_up(self, cosine: Tensor, rows: Tensor, flip: Tensor) -> Tensor:
        """`find_power` of the images `rows` (B,), mirrored where `flip` (B,) is true: (B, n, n) -> (B, 1, 1)."""
        places = 2 * rows + flip
        missing = self.table[places].isnan().nonzero()[:, 0]
        if len(missing):
            self.table[places[missing]] = find_power(cosine[missing])[:, 0, 0].to(self.table.dtype)
        return self.table[places, None, None].to(cosine.dtype)
