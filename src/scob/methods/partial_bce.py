"""Partial BCE: cross-entropy over known labels, scaled up for images with few known labels.

Thibaut Durand, Nazanin Mehrasa, Greg Mori: Learning a Deep ConvNet for Multi-label Classification with Partial
Labels, CVPR 2019. g(s) / L times the sum of the BCE of known labels, where s is the image's share of known labels
and g(s) = alpha * s^gamma + beta. gamma = 1, alpha = -4.45, beta = 5.45: g(1) = 1 is plain BCE, g(0.1) = 5.
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import absent_cost, over_images, present_cost


class PartialBceSettings(Section):
    """Partial BCE."""

    alpha: float = setting(-4.45, "slope of the normalisation g", -4.45)
    beta: float = setting(5.45, "offset of the normalisation g", 5.45)
    gamma: float = setting(1.0, "exponent of the share of known labels", 1.0)


def partial_bce(logits: Tensor, labels: Tensor, weight: Tensor, settings: PartialBceSettings) -> Tensor:
    """The loss of logits (B, L) against labels (B, L) in {-1, 0, 1}."""
    known = (labels != 0).float()
    share = known.mean(dim=1, keepdim=True)
    scale = settings.alpha * share.clamp(min=1e-6) ** settings.gamma + settings.beta
    cost = torch.where(labels == 1, present_cost(logits), absent_cost(logits))
    return over_images(scale * known * cost, weight)


class PartialBce(LossMethod):
    """BCE over known labels, scaled up for images with few of them."""

    name: ClassVar[str] = "partial-bce"
    title: ClassVar[str] = "Partial BCE"
    Settings: ClassVar[type[Section]] = PartialBceSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"bce": partial_bce(logits, observed, batch.weight, self.settings)}
