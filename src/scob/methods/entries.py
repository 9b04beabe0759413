"""What most losses are made of: the cost of calling one entry (an image and a class) present or absent."""

import torch.nn.functional as F
from torch import Tensor

from scob.algorithm.batch_share import BatchShare


def present_cost(logits: Tensor) -> Tensor:
    """-log p of each entry."""
    return F.softplus(-logits)


def absent_cost(logits: Tensor) -> Tensor:
    """-log(1 - p) of each entry."""
    return F.softplus(logits)


def soft_cost(logits: Tensor, target: Tensor | float) -> Tensor:
    """BCE of each entry against a target in [0, 1]."""
    return target * present_cost(logits) + (1 - target) * absent_cost(logits)


def over_images(entries: Tensor, weight: Tensor) -> Tensor:
    """Mean over the classes, weighted sum over the images: (B, L), (B,) -> a scalar."""
    return (entries.mean(dim=1) * weight).sum()


def over_known(entries: Tensor, known: Tensor, share: BatchShare) -> Tensor:
    """Mean over the known entries of the batch of all processes: (B, L), (B, L) bool -> a scalar; 0 if none is known.

    Each process computes its part; the parts add up.
    """
    return (entries * known).sum() / share.total(known.sum()).clamp(min=1)
