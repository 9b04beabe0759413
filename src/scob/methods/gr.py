"""Generalised robust loss: a soft pseudo-label for every unknown entry, a weight for how far it is to be trusted.

Yanxi Chen, Chunxiao Li, Xinyang Dai, Jinhuan Li, Weiyu Sun, Yiming Wang, Renyuan Zhang, Tinghe Zhang, Bo Wang:
Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI 2024. Every term is a
generalised cross-entropy l_q(p) = (1 - p^q) / q, which is -log p at q = 0 and 1 - p at q = 1. Present: l_q1(p).
Unknown: v(p) * [k(p) * l_q2(p) + (1 - k(p)) * l_q3(1 - p)], where k(p) = sigmoid(w p + b) is how likely an entry
predicted with p is a missing positive and v(p) = exp(-(p - mu)^2 / (2 sigma^2)) how much it counts; neither passes
a gradient, and w, b, mu and sigma move linearly from the first epoch to the last. The paper tunes these numbers for
each data set; ours are one setting for all. An observed negative costs l_q3(1 - p).
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.config import Section, setting
from scob.methods.base import Batch, LossMethod
from scob.methods.entries import over_images

Pair = tuple[float, float]


class GrSettings(Section):
    """Generalised robust loss."""

    q1: float = setting(0.01, "robustness of observed positives: 0 is BCE, 1 absolute error", 0.01, gt=0, le=2)
    q2: float = setting(1.0, "robustness of the present part of an unknown label", None, gt=0, le=2)
    q3: float = setting(1.0, "robustness of the absent part", None, gt=0, le=2)
    w: Pair = setting((0.0, 4.0), "slope of the pseudo-label, first and last epoch", None)
    b: Pair = setting((-3.0, -3.0), "offset of the pseudo-label, first and last epoch", None)
    mu: Pair = setting((0.5, 0.8), "prediction that counts most, first and last epoch", None)
    sigma: Pair = setting((2.0, 0.5), "how quickly the weight falls off from it, first and last epoch", None)


def generalised_cross_entropy(p: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q of each entry (Zhang and Sabuncu, NeurIPS 2018)."""
    return (1 - p.clamp(min=1e-7) ** q) / q


class GeneralisedRobust(LossMethod):
    """Soft pseudo-labels by robust losses, weighted by a Gaussian of the prediction."""

    name: ClassVar[str] = "gr"
    title: ClassVar[str] = "GR"
    Settings: ClassVar[type[Section]] = GrSettings
    settings: GrSettings

    def at(self, ends: Pair, epoch: int) -> float:
        """A number on its way from the first epoch to the last."""
        return ends[0] + (ends[1] - ends[0]) * epoch / max(1, self.problem.epochs - 1)

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        s, p, epoch = self.settings, logits.sigmoid(), batch.epoch
        fixed = p.detach()
        k = torch.sigmoid(self.at(s.w, epoch) * fixed + self.at(s.b, epoch))
        v = torch.exp(-((fixed - self.at(s.mu, epoch)) ** 2) / (2 * self.at(s.sigma, epoch) ** 2))
        absent = generalised_cross_entropy(1 - p, s.q3)
        unknown = v * (k * generalised_cross_entropy(p, s.q2) + (1 - k) * absent)
        known = torch.where(observed == 1, generalised_cross_entropy(p, s.q1), absent)
        return {"robust": over_images(torch.where(observed == 0, unknown, known), batch.weight)}
