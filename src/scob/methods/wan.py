"""Weak assume negative: unknown labels count as absent, with a small weight.

Elijah Cole, Oisin Mac Aodha, Titouan Lorieul, Pietro Perona, Dan Morris, Nebojsa Jojic: Multi-Label Learning from
Single Positive Labels, CVPR 2021, after Mac Aodha et al., ICCV 2019. The mean over the classes of -log p if the label
is observed present and gamma * -log(1 - p) if it is unknown; gamma = 1 / (L - 1), so that all unknown labels together
weigh as much as the single positive. An observed negative has full weight.
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import absent_cost, over_images, present_cost


class WanSettings(Section):
    """Weak assume negative."""

    gamma: float = setting(0.0, "weight of an unknown label; 0: 1 / (classes - 1)", 0.0, ge=0, le=1)


class WeakAssumeNegative(LossMethod):
    """BCE in which unknown labels count as absent, with a small weight."""

    name: ClassVar[str] = "wan"
    title: ClassVar[str] = "Weak assume negative"
    Settings: ClassVar[type[Section]] = WanSettings
    settings: WanSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        gamma = self.settings.gamma or 1 / max(1, logits.shape[1] - 1)
        absent = torch.where(observed == 0, gamma, 1.0) * absent_cost(logits)
        return {"bce": over_images(torch.where(observed == 1, present_cost(logits), absent), batch.weight)}
