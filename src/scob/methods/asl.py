"""Asymmetric loss: easy negatives are down-weighted, and the easiest are ignored.

Tal Ridnik, Emanuel Ben-Baruch, Nadav Zamir, Asaf Noy, Itamar Friedman, Matan Protter, Lihi Zelnik-Manor: Asymmetric
Loss for Multi-Label Classification, ICCV 2021. Present: (1 - p)^gamma+ * -log p. Absent: with the shifted
probability q = max(p - m, 0), q^gamma- * -log(1 - q). gamma+ = 0, gamma- = 4, m = 0.05. Unknown labels count as absent.
The gradient flows through both factors, as in the paper's analysis; the authors' script treats the first as a constant.
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import over_images, present_cost


class AslSettings(Section):
    """Asymmetric loss."""

    gamma_positive: float = setting(0.0, "focusing exponent of positives", 0.0, ge=0)
    gamma_negative: float = setting(4.0, "focusing exponent of negatives", 4.0, ge=0)
    shift: float = setting(0.05, "m, the probability below which a negative costs nothing", 0.05, ge=0, lt=1)


def asymmetric_costs(logits: Tensor, settings: AslSettings) -> tuple[Tensor, Tensor]:
    """What each entry costs if it is present, and if it is absent."""
    s, p = settings, logits.sigmoid()
    shifted = (p - s.shift).clamp(min=0)
    absent = -(shifted**s.gamma_negative) * torch.log1p(-shifted.clamp(max=1 - 1e-7))
    return (1 - p) ** s.gamma_positive * present_cost(logits), absent


class AsymmetricLoss(LossMethod):
    """A focal loss with separate focusing for positives and negatives; the easiest negatives are ignored."""

    name: ClassVar[str] = "asl"
    title: ClassVar[str] = "ASL"
    Settings: ClassVar[type[Section]] = AslSettings
    settings: AslSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        present, absent = asymmetric_costs(logits, self.settings)
        return {"asymmetric": over_images(torch.where(observed == 1, present, absent), batch.weight)}
