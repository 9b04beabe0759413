"""Assume negative with label smoothing: unobserved labels count as absent, and all targets are softened.

Elijah Cole, Oisin Mac Aodha, Titouan Lorieul, Pietro Perona, Dan Morris, Nebojsa Jojic: Multi-Label Learning from
Single Positive Labels, CVPR 2021. The target is 1 - epsilon / 2 for an observed positive and epsilon / 2 for everything
else, with epsilon = 0.1. (The authors' code does not halve its 0.1, which would be epsilon = 0.2 here.)
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.losses import bce
from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting


class AnLsSettings(Section):
    """Label smoothing."""

    epsilon: float = setting(0.1, "how much targets are softened: a positive becomes 1 - epsilon / 2", 0.1, ge=0, lt=1)


class SmoothedAssumeNegative(LossMethod):
    """Assume negative with smoothed targets."""

    name: ClassVar[str] = "an-ls"
    title: ClassVar[str] = "AN, label smoothing"
    Settings: ClassVar[type[Section]] = AnLsSettings
    settings: AnLsSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        half = self.settings.epsilon / 2
        return {"bce": bce(logits.sigmoid(), torch.where(observed == 1, 1 - half, half), batch.weight)}
