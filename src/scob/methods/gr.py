"""Generalised robust loss: each unknown label gets a soft pseudo-label and a weight for how much to trust it.

Yanxi Chen, Chunxiao Li, Xinyang Dai, Jinhuan Li, Weiyu Sun, Yiming Wang, Renyuan Zhang, Tinghe Zhang, Bo Wang:
Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI 2024. Every term is a
generalised cross-entropy l_q(p) = (1 - p^q) / q, which is -log p at q = 0 and 1 - p at q = 1. Present: l_q1(p).
Unknown: v(p) * [k(p) * l_q2(p) + (1 - k(p)) * l_q3(1 - p)], where k(p) = sigmoid(w p + b) is the probability that an
entry predicted with p is a missing positive, and v(p) = exp(-(p - mu)^2 / (2 sigma^2)) is its weight. Neither passes a
gradient. w, b, mu and sigma change linearly over the epochs: in epoch t of T (from 0), w and b have covered t / T of
their range, mu and sigma (t + 1) / T, as in the authors' code. The default values are from that code, for VOC; the
values for other data sets could not be checked. Ours: an observed negative, which the paper does not have, costs
l_q3(1 - p).
"""

from collections.abc import Sequence
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
    w: Pair = setting((0.0, 2.0), "slope of the pseudo-label, at the start and at the end", (0.0, 2.0))
    b: Pair = setting((-2.0, -2.0), "offset of the pseudo-label, at the start and at the end", (-2.0, -2.0))
    mu: Pair = setting((0.5, 0.8), "prediction with the highest weight, at the start and at the end", (0.5, 0.8))
    sigma: Pair = setting((2.0, 0.5), "width of the weight around it, at the start and at the end", (2.0, 0.5))


def generalised_cross_entropy(p: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q of each entry (Zhang and Sabuncu, NeurIPS 2018); at q = 0 its limit, -log p."""
    return (1 - p.clamp(min=1e-7) ** q) / q if q else -(p + 1e-7).log()


def schedule(settings: GrSettings, epoch: int, epochs: int) -> tuple[float, float, float, float]:
    """w, b, mu and sigma of an epoch: w and b have covered t / T of their range, mu and sigma (t + 1) / T."""
    s = settings
    covered = ((s.w, epoch), (s.b, epoch), (s.mu, epoch + 1), (s.sigma, epoch + 1))
    w, b, mu, sigma = (ends[0] + (ends[1] - ends[0]) * passed / epochs for ends, passed in covered)
    return w, b, mu, sigma


def robust_entries(
    logits: Tensor,
    observed: Tensor,
    settings: GrSettings,
    values: Sequence[float | Tensor],
    positive: Tensor | None = None,
) -> Tensor:
    """The loss of each entry (B, L), by the `values` of the epoch; `positive` (B, L) bool are surely missing ones."""
    s, p, (w, b, mu, sigma) = settings, logits.sigmoid(), values
    constant = p.detach()
    k = torch.sigmoid(w * constant + b)
    k = k if positive is None else torch.where(positive, 1.0, k)
    v = torch.exp(-((constant - mu) ** 2) / (2 * sigma**2))
    absent = generalised_cross_entropy(1 - p, s.q3)
    unknown = v * (k * generalised_cross_entropy(p, s.q2) + (1 - k) * absent)
    known = torch.where(observed == 1, generalised_cross_entropy(p, s.q1), absent)
    return torch.where(observed == 0, unknown, known)


class GeneralisedRobust(LossMethod):
    """Robust losses on a soft pseudo-label for each unknown label, weighted by a Gaussian of the prediction."""

    name: ClassVar[str] = "gr"
    title: ClassVar[str] = "GR"
    Settings: ClassVar[type[Section]] = GrSettings
    settings: GrSettings

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        values = schedule(self.settings, batch.epoch, self.problem.epochs)
        return {"robust": over_images(robust_entries(logits, observed, self.settings, values), batch.weight)}
