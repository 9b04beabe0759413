"""Assume negative with label smoothing.

Elijah Cole, Oisin Mac Aodha, Titouan Lorieul, Pietro Perona, Dan Morris, Nebojsa Jojic: Multi-Label Learning from
Single Positive Labels, CVPR 2021. BCE against labels that are not quite sure: an observed positive is taken for
1 - epsilon / 2, everything else for epsilon / 2, with epsilon = 0.1. (The authors' code does not halve its 0.1: that
would be epsilon = 0.2 here.)
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

    epsilon: float = setting(0.1, "how much of a label is shared between present and absent", 0.1, ge=0, lt=1)


class SmoothedAssumeNegative(LossMethod):
    """BCE with unknown as absent and both ends smoothed."""

    name: ClassVar[str] = "an-ls"
    title: ClassVar[str] = "AN, label smoothing"
    Settings: ClassVar[type[Section]] = AnLsSettings
    settings: AnLsSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        half = self.settings.epsilon / 2
        return {"bce": bce(logits.sigmoid(), torch.where(observed == 1, 1 - half, half), batch.weight)}
