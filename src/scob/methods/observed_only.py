"""Observed labels only: BCE that ignores every unknown label, the simplest use of partial labels.

Cole et al. (CVPR 2021) call this ignoring the unobserved. With single positives it has no negatives to learn from; it
is included to show what that costs.
"""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.losses import bce_observed
from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch


class ObservedOnly(LossMethod):
    """BCE over observed labels alone, divided by the number of classes."""

    name: ClassVar[str] = "observed-only"
    title: ClassVar[str] = "Observed labels only"
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"bce": bce_observed(logits.sigmoid(), observed, batch.weight)}
