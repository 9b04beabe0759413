"""A linear classifier beside the head: it reads the strongest cells of the backbone's last feature map.

A network with a head of millions of weights learns a few thousand images by heart; a linear classifier cannot. They err
in different places, so the mean of their logits is better than either (docs/oracles.md). Nothing trains the linear
classifier step by step: `fit_linear` (training/linear.py) computes it when training has ended.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.model.backbone import Features
from scob.model.heads import Keep

STRONGEST = 0.05  # of an image's cells: those that a channel is averaged over, at least one


def strongest_cells(cells: Tensor, keep: Tensor | None = None) -> Tensor:
    """The mean of the highest twentieth of each channel's cells, (B, C, h, w) -> (B, C); of the kept ones, (B, h, w).

    The mean over all cells hardly shows a small object of a large image, and a single cell is noisy.
    """
    values = cells.flatten(2)
    count = max(1, round(STRONGEST * values.shape[2]))
    if keep is None:
        return values.topk(count, dim=2).values.mean(dim=2)
    seen = keep.flatten(1)
    seen = seen | ~seen.any(dim=1, keepdim=True)  # an image that keeps no cell is read whole
    top = values.masked_fill(~seen[:, None], -torch.inf).topk(count, dim=2).values
    kept = top.isfinite()
    return torch.where(kept, top, 0.0).sum(dim=2) / kept.sum(dim=2)


class LinearPart(nn.Module):
    """Logits (B, L) of stage 4's strongest cells. Their `share` in the network's logits is 0 until they are fitted."""

    share: Tensor

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, channels), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(classes), requires_grad=False)
        self.register_buffer("share", torch.zeros(()))

    def forward(self, logits: Tensor, features: Features, keep: Keep | None = None) -> Tensor:
        """The head's logits (B, L) with this classifier's share, from the same features and kept cells."""
        own = F.linear(strongest_cells(features[1], None if keep is None else keep[1]), self.weight, self.bias)
        return logits + self.share.to(logits.dtype) * (own - logits)
