"""Confident negatives: unknown labels count as absent unless they are predicted present."""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.losses import bce
from scob.config import Section, setting
from scob.methods import Batch, LossMethod


class ConfidentSettings(Section):
    """The method's own settings, a section with its name."""

    limit: float = setting(0.3, "probability above which an unknown label is left out", None, ge=0, le=1)


class Confident(LossMethod):
    """BCE that leaves out doubtful unknown labels."""

    name: ClassVar[str] = "confident"
    title: ClassVar[str] = "Confident negatives"
    Settings: ClassVar[type[Section]] = ConfidentSettings

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        p = logits.sigmoid()
        doubtful = (observed == 0) & (p > self.settings.limit)
        target = (observed == 1).float()
        return {"bce": bce(p, p.detach() * doubtful + target * ~doubtful, batch.weight)}
