"""Assume negative (Cole et al., CVPR 2021): plain BCE that treats every unobserved label as absent."""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.losses import bce
from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch


class AssumeNegative(LossMethod):
    """Plain BCE: every unknown label counts as absent."""

    name: ClassVar[str] = "an"
    title: ClassVar[str] = "Assume negative"
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"bce": bce(logits.sigmoid(), (observed == 1).float(), batch.weight)}
