"""Hill loss: a negative predicted present with high confidence is penalised less, since it may be a missing positive.

Youcai Zhang, Yuhao Cheng, Xinyu Huang, Fei Wen, Rui Feng, Yaqian Li, Yandong Guo: Simple and Robust Loss Design for
Multi-Label Learning with Missing Labels, arXiv 2021. Present, the focal margin loss: with p_m = sigmoid(x - m),
(1 - p_m)^gamma * -log p_m. Absent and unknown: (lambda - p) * p^2, a re-weighted squared error whose gradient falls
off towards p = 1. lambda = 1.5, m = 1, gamma = 2.
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import over_images, present_cost


class HillSettings(Section):
    """Hill loss."""

    height: float = setting(1.5, "lambda in (lambda - p) * p^2, the cost of a negative", 1.5, ge=1)
    margin: float = setting(1.0, "m, subtracted from a positive's logit", 1.0, ge=0)
    gamma: float = setting(2.0, "focusing exponent of positives", 2.0, ge=0)


def focal_margin(logits: Tensor, margin: float, gamma: float) -> Tensor:
    """The focal margin loss of positive entries."""
    shifted = logits - margin
    return (1 - shifted.sigmoid()) ** gamma * present_cost(shifted)


class Hill(LossMethod):
    """Focal margin loss for positives; negatives predicted present with high confidence are penalised less."""

    name: ClassVar[str] = "hill"
    title: ClassVar[str] = "Hill"
    Settings: ClassVar[type[Section]] = HillSettings
    settings: HillSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        s, p = self.settings, logits.sigmoid()
        entries = torch.where(observed == 1, focal_margin(logits, s.margin, s.gamma), (s.height - p) * p.square())
        return {"hill": over_images(entries, batch.weight)}
