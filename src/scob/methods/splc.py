"""Self-paced loss correction: an unknown label that is predicted with confidence counts as positive.

Youcai Zhang, Yuhao Cheng, Xinyu Huang, Fei Wen, Rui Feng, Yaqian Li, Yandong Guo: Simple and Robust Loss Design for
Multi-Label Learning with Missing Labels, arXiv 2021. Present: the focal margin loss. Unknown: p^gamma * -log(1 - p)
while p <= tau, the loss of a positive above; the correction begins after the first epoch. tau = 0.6, m = 1, gamma = 2.
A corrected label has the margin of any positive, as in the formula; the authors' code omits the margin there. An
observed negative is never corrected.
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import absent_cost, over_images
from scob.methods.hill import focal_margin


class SplcSettings(Section):
    """Self-paced loss correction."""

    tau: float = setting(0.6, "probability above which an unknown label counts as present", 0.6, gt=0, le=1)
    margin: float = setting(1.0, "m, subtracted from a positive's logit", 1.0, ge=0)
    gamma: float = setting(2.0, "focusing exponent of positives and negatives", 2.0, ge=0)
    begin: int = setting(1, "first epoch (counted from 0) with corrections", 1, ge=0)


class SelfPacedCorrection(LossMethod):
    """Focal margin loss in which an unknown label counts as positive once it is predicted with confidence."""

    name: ClassVar[str] = "splc"
    title: ClassVar[str] = "SPLC"
    Settings: ClassVar[type[Section]] = SplcSettings
    settings: SplcSettings
    capturable = True

    def phase(self, epoch: int) -> str:
        return f"corrects {epoch >= self.settings.begin}"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        s, p = self.settings, logits.sigmoid()
        positive = observed == 1
        if batch.epoch >= s.begin:
            positive = positive | ((observed == 0) & (p.detach() > s.tau))
        entries = torch.where(positive, focal_margin(logits, s.margin, s.gamma), p**s.gamma * absent_cost(logits))
        return {"corrected": over_images(entries, batch.weight)}
