"""The likelihood of the label that was chosen among all that an image shows.

An annotator who gives an image one label chooses one of the classes that it shows. If class c is shown with
probability p_c, each independently of the others, and every class that is shown is equally likely to be chosen, then

    P(c chosen) = p_c · E[1 / (1 + N)] = p_c · ∫ over t from 0 to 1 of ∏ over j ≠ c of (1 - p_j + p_j t),

where N counts the other classes that are shown (the integrand is E[t^N]). -log P(c chosen) raises p_c, and
lowers the others only as far as they compete with it: an unobserved class is never called absent, and the
pull on it is bounded.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from scob.algorithm.batch_share import BatchShare

NODES = 16  # of the integral: exact for up to 32 classes, and for more as long as few of them are likely


def quadrature(device: torch.device) -> tuple[Tensor, Tensor]:
    """The logarithms of the nodes t in (0, 1) of a Gauss-Legendre quadrature and of their weights, (Q,) each."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    log_nodes, log_weights = torch.tensor(np.log([(nodes + 1) / 2, weights / 2]), dtype=torch.float32, device=device)
    return log_nodes, log_weights


def log_chosen(logits: Tensor, log_nodes: Tensor, log_weights: Tensor) -> Tensor:
    """log P(c chosen) of every class: logits (B, L) -> (B, L)."""
    # log(1 - p + p t) = log(1 + t e^x) - log(1 + e^x)
    factors = F.softplus(logits[..., None] + log_nodes) - F.softplus(logits)[..., None]
    others = factors.sum(dim=1, keepdim=True) - factors
    return F.logsigmoid(logits) + torch.logsumexp(others + log_weights, dim=-1)


def l_chosen(log_likelihood: Tensor, observed: Tensor, share: BatchShare) -> Tensor:
    """-log P(c chosen) / L, as a mean over the observed positives of an image; images without one add nothing.

    log_likelihood (B, L) from `log_chosen`, observed (B, L).
    """
    positive = (observed == 1).to(log_likelihood.dtype)
    costs = -(positive * log_likelihood).sum(dim=1)
    return share.mean(costs / positive.sum(dim=1).clamp(min=1)) / observed.shape[1]
