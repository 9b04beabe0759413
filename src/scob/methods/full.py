"""Full labels, the upper bound: the only method that is given every label of the training images."""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.losses import bce
from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch


class FullLabels(LossMethod):
    """The upper bound, plain BCE with every label known; entries that the data set leaves unknown have no gradient."""

    name: ClassVar[str] = "full"
    title: ClassVar[str] = "Full labels"
    labels = "full"
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        known = (observed != 0).float()
        target = (observed == 1).float() * known + logits.sigmoid().detach() * (1 - known)
        return {"bce": bce(logits.sigmoid(), target, batch.weight)}
