"""Generalised robust loss: a soft pseudo-label for every unknown entry, a weight for how far it is to be trusted.

Yanxi Chen, Chunxiao Li, Xinyang Dai, Jinhuan Li, Weiyu Sun, Yiming Wang, Renyuan Zhang, Tinghe Zhang, Bo Wang:
Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI 2024. Every term is a
generalised cross-entropy l_q(p) = (1 - p^q) / q, which is -log p at q = 0 and 1 - p at q = 1. Present: l_q1(p).
Unknown: v(p) * [k(p) * l_q2(p) + (1 - k(p)) * l_q3(1 - p)], where k(p) = sigmoid(w p + b) is how likely an entry
predicted with p is a missing positive and v(p) = exp(-(p - mu)^2 / (2 sigma^2)) how much it counts; neither passes
a gradient, and w, b, mu and sigma move linearly over the epochs: in epoch t of T (from 0) w and b have gone t / T of
their way, mu and sigma (t + 1) / T, as in the authors' code. The numbers here are that code's, for VOC; those of other
data sets could not be checked. An observed negative, which the paper does not have, costs l_q3(1 - p).
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import over_images

Pair = tuple[float, float]


class GrSettings(Section):
    """Generalised robust loss."""

    q1: float = setting(0.0, "robustness of observed positives: 0 is BCE, 1 absolute error", 0.0, ge=0, le=2)
    q2: float = setting(0.01, "robustness of the present part of an unknown label", 0.01, ge=0, le=2)
    q3: float = setting(1.0, "robustness of the absent part", 1.0, ge=0, le=2)
    w: Pair = setting((0.0, 2.0), "slope of the pseudo-label, at the start and the end", (0.0, 2.0))
    b: Pair = setting((-2.0, -2.0), "offset of the pseudo-label, at the start and the end", (-2.0, -2.0))
    mu: Pair = setting((0.5, 0.8), "prediction that counts most, at the start and the end", (0.5, 0.8))
    sigma: Pair = setting((2.0, 0.5), "how slowly the weight falls off from it, at the start and the end", (2.0, 0.5))


def generalised_cross_entropy(p: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q of each entry (Zhang and Sabuncu, NeurIPS 2018), -log p in the limit of q = 0."""
    return (1 - p.clamp(min=1e-7) ** q) / q if q else -(p + 1e-7).log()


class GeneralisedRobust(LossMethod):
    """Soft pseudo-labels by robust losses, weighted by a Gaussian of the prediction."""

    name: ClassVar[str] = "gr"
    title: ClassVar[str] = "GR"
    Settings: ClassVar[type[Section]] = GrSettings
    settings: GrSettings

    def at(self, ends: Pair, epochs: int) -> float:
        """A number on its way, after so many of all the epochs."""
        return ends[0] + (ends[1] - ends[0]) * epochs / self.problem.epochs

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        s, p, epoch = self.settings, logits.sigmoid(), batch.epoch
        fixed = p.detach()
        k = torch.sigmoid(self.at(s.w, epoch) * fixed + self.at(s.b, epoch))
        v = torch.exp(-((fixed - self.at(s.mu, epoch + 1)) ** 2) / (2 * self.at(s.sigma, epoch + 1) ** 2))
        absent = generalised_cross_entropy(1 - p, s.q3)
        unknown = v * (k * generalised_cross_entropy(p, s.q2) + (1 - k) * absent)
        known = torch.where(observed == 1, generalised_cross_entropy(p, s.q1), absent)
        return {"robust": over_images(torch.where(observed == 0, unknown, known), batch.weight)}
