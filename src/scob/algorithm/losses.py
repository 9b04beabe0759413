"""The paper's losses, one pure function an equation. Probabilities of exactly 0 and 1 give finite values.

`weight` (B,) is each image's share of the batch, 1/B where it is left out; padding has weight 0, and over several
processes the weights of all of them sum to 1, so that losses add up to those of one process with the whole batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor

EPSILON = 1e-7


def _log(p: Tensor) -> Tensor:
    return p.clamp(min=EPSILON, max=1.0).log()


def _mean(per_image: Tensor, weight: Tensor | None) -> Tensor:
    return per_image.mean() if weight is None else (per_image * weight).sum()


def bce(p: Tensor, q: Tensor, weight: Tensor | None = None) -> Tensor:
    """L_BCE of Eq. 11: cross-entropy of predictions p (B, L) against soft labels q (B, L), divided by L."""
    return _mean(-(q * _log(p) + (1 - q) * _log(1 - p)).mean(dim=1), weight)


def bce_observed(p: Tensor, observed: Tensor, weight: Tensor | None = None) -> Tensor:
    """L_BCE+ of Eq. 11: only observed labels count, divided by L; an observed -1 is a negative (partial labels)."""
    positive, negative = (observed == 1).to(p.dtype), (observed == -1).to(p.dtype)
    return _mean(-(positive * _log(p) + negative * _log(1 - p)).mean(dim=1), weight)


def identity(x: Tensor) -> Tensor:
    """The sum over all processes where there is one."""
    return x


def expected_positives(
    p: Tensor, weight: Tensor | None = None, collect: Callable[[Tensor], Tensor] = identity
) -> Tensor:
    """k-hat of Eq. 11: the mean number of positives an image over the whole (global) batch."""
    return collect(_mean(p.sum(dim=1), weight))


def expected_positive_loss(k_hat: Tensor, k: float, classes: int) -> Tensor:
    """The distribution constraint of Eq. 11: ((k-hat - k) / L)^2."""
    return ((k_hat - k) / classes).square()


def counted_once(constraint: Tensor, share: float) -> Tensor:
    """A term that every process has whole: its value is divided among them, its gradient is already (`collect`)."""
    return constraint if share == 1 else constraint - (1 - share) * constraint.detach()


def l_sp(
    p: Tensor,
    estimate: Tensor,
    observed: Tensor,
    k: float,
    weight: Tensor | None = None,
    collect: Callable[[Tensor], Tensor] = identity,
    share: float = 1.0,
) -> Tensor:
    """Eq. 11: pseudo multi-label BCE (no gradient to `estimate`), single-positive BCE, distribution constraint.

    The constraint is about the global batch, so every process has the same: `share` (1 / processes) of it counts.
    """
    constraint = expected_positive_loss(expected_positives(p, weight, collect), k, p.shape[1])
    return bce(p, estimate.detach(), weight) + bce_observed(p, observed, weight) + counted_once(constraint, share)


def l_class(
    p: Tensor,
    estimate: Tensor,
    observed: Tensor,
    k: float,
    weight: Tensor | None = None,
    collect: Callable[[Tensor], Tensor] = identity,
    share: float = 1.0,
) -> Tensor:
    """Eq. 12: L_sp symmetric in predictions and estimates."""
    one = l_sp(p, estimate, observed, k, weight, collect, share)
    return (one + l_sp(estimate, p, observed, k, weight, collect, share)) / 2


def l_cont(
    query: Tensor,
    key: Tensor,
    negatives: Tensor,
    allowed: Tensor,
    tau: float,
    scale: str = "paper",
    weight: Tensor | None = None,
) -> Tensor:
    """Eq. 8 without lambda_c: query and key (B, D), negatives (M, D) or (B, M, D), allowed (B, M) bool -> a scalar.

    A negative that is not allowed (own class, empty slot) is left out of the denominator, not counted as zero.
    `scale: paper` divides by 1 + the number of negatives.
    """
    positive = (query * key).sum(dim=1, keepdim=True) / tau
    against = (query @ negatives.T if negatives.ndim == 2 else torch.einsum("bd,bmd->bm", query, negatives)) / tau
    against = against.masked_fill(~allowed, -torch.inf)
    per_image = torch.logsumexp(torch.cat((positive, against), dim=1), dim=1) - positive[:, 0]
    if scale == "paper":
        per_image = per_image / (1 + allowed.sum(dim=1))
    return _mean(per_image, weight)


def byol_loss(prediction: Tensor, key: Tensor, weight: Tensor | None = None) -> Tensor:
    """BYOL (Grill et al. 2020): 2 - 2 cos between unit vectors (B, D)."""
    return _mean(2 - 2 * (prediction * key).sum(dim=1), weight)


def nt_xent(first: Tensor, second: Tensor, tau: float, weight: Tensor | None = None) -> Tensor:
    """SimCLR (Chen et al. 2020): every other view of the batch is a negative; unit vectors (B, D) each."""
    count = len(first)
    views = torch.cat((first, second))
    similar = views @ views.T / tau
    similar = similar.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=views.device), -torch.inf)
    partner = torch.arange(2 * count, device=views.device).roll(count)
    per_view = torch.logsumexp(similar, dim=1) - similar.gather(1, partner[:, None])[:, 0]
    return _mean((per_view[:count] + per_view[count:]) / 2, weight)
