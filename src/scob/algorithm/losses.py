"""The paper's losses as pure functions, each named after its equation.

Probabilities of exactly 0 and 1 give finite values. `weight` (B,) is each image's share of the batch (see
`BatchShare`); 1/B if it is left out.
"""

import math

import torch
from torch import Tensor

from scob.algorithm.batch_share import BatchShare, weighted_mean

EPSILON = 1e-7


def _log(p: Tensor) -> Tensor:
    return p.clamp(min=EPSILON, max=1.0).log()


def bce(p: Tensor, q: Tensor, weight: Tensor | None = None) -> Tensor:
    """L_BCE of Eq. 11: cross-entropy of predictions p (B, L) against soft labels q (B, L), divided by L."""
    return weighted_mean(-(q * _log(p) + (1 - q) * _log(1 - p)).mean(dim=1), weight)


def bce_observed(p: Tensor, observed: Tensor, weight: Tensor | None = None) -> Tensor:
    """L_BCE+ of Eq. 11: only observed labels count, divided by L; an observed -1 is a negative (partial labels)."""
    positive, negative = (observed == 1).to(p.dtype), (observed == -1).to(p.dtype)
    return weighted_mean(-(positive * _log(p) + negative * _log(1 - p)).mean(dim=1), weight)


def expected_positives(p: Tensor, share: BatchShare = BatchShare()) -> Tensor:
    """k-hat of Eq. 11: the mean number of positives per image over the whole batch."""
    return share.total(share.mean(p.sum(dim=1)))


def expected_positive_loss(k_hat: Tensor, k: float, classes: int) -> Tensor:
    """The distribution constraint of Eq. 11: ((k-hat - k) / L)^2."""
    return ((k_hat - k) / classes).square()


def l_sp(p: Tensor, estimate: Tensor, observed: Tensor, k: float, share: BatchShare = BatchShare()) -> Tensor:
    """Eq. 11: pseudo multi-label BCE (no gradient to `estimate`), single-positive BCE, distribution constraint."""
    constraint = expected_positive_loss(expected_positives(p, share), k, p.shape[1])
    pseudo, single = bce(p, estimate.detach(), share.weight), bce_observed(p, observed, share.weight)
    return pseudo + single + share.counted_once(constraint)


def l_class(p: Tensor, estimate: Tensor, observed: Tensor, k: float, share: BatchShare = BatchShare()) -> Tensor:
    """Eq. 12: L_sp, symmetric in predictions and estimates."""
    return (l_sp(p, estimate, observed, k, share) + l_sp(estimate, p, observed, k, share)) / 2


def contrast_divisor(scale: str, allowed: Tensor, classes: int) -> Tensor | float:
    """What Eq. 8 is divided by, by `scob.cont_scale`; allowed (B, M) says which negatives each image has.

    `paper`: 1 + the number of negatives, as printed, (B,). `none`: nothing. `root`: the square root of the number of
    classes L. L_class is a mean over L terms that pull the features in unrelated directions, so its gradient falls as
    the root of L; that of Eq. 8 against one node per class hardly depends on L.
    """
    if scale == "paper":
        return 1 + allowed.sum(dim=1)
    return math.sqrt(classes) if scale == "root" else 1.0


def l_cont(
    query: Tensor,
    key: Tensor,
    negatives: Tensor,
    allowed: Tensor,
    tau: float,
    divisor: Tensor | float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Eq. 8 without lambda_c: query and key (B, D), negatives (M, D) or (B, M, D), allowed (B, M) bool -> a scalar.

    A negative that is not allowed (own class, empty slot) is left out of the denominator, not counted as zero.
    """
    positive = (query * key).sum(dim=1, keepdim=True) / tau
    against = (query @ negatives.T if negatives.ndim == 2 else torch.einsum("bd,bmd->bm", query, negatives)) / tau
    against = against.masked_fill(~allowed, -torch.inf)
    per_image = torch.logsumexp(torch.cat((positive, against), dim=1), dim=1) - positive[:, 0]
    return weighted_mean(per_image / divisor, weight)
