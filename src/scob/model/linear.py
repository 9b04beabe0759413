"""A linear classifier beside the head: it reads how strong each channel of the backbone's last feature map is.

A network with a head of millions of weights learns a few thousand images by heart; a linear classifier cannot. They err
in different places, so the mean of their logits is better than either (docs/oracles.md). Nothing trains the linear
classifier step by step: `fit_linear` (training/linear.py) computes it when training has ended.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.model.backbone import Features
from scob.model.heads import Keep, pool

STRONGEST = 0.05  # of an image's cells: those that a channel is averaged over, at least one


def strongest_cells(cells: Tensor, keep: Tensor | None = None) -> Tensor:
    """The mean of each channel's highest twentieth of cells, (B, C, h, w) -> (B, C); of the kept ones, (B, h, w)."""
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
    """Logits (B, L) from stage 4. Their `share` in the network's logits is 0 until they are fitted.

    Each channel is read as its mean over all cells plus that over its strongest ones, each times a factor (`scale`).
    The first hardly shows a small object of a large image, the second is noisy where there are few cells.
    """

    scale: Tensor
    share: Tensor

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, channels), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(classes), requires_grad=False)
        self.register_buffer("scale", torch.ones(2))
        self.register_buffer("share", torch.zeros(()))

    def read(self, mean: Tensor, strongest: Tensor) -> Tensor:
        """What is classified (B, C): both means of each channel, (B, C) each, added up."""
        scale = self.scale.to(mean)
        return scale[0] * mean + scale[1] * strongest

    def forward(self, logits: Tensor, features: Features, keep: Keep | None = None) -> Tensor:
        """The head's logits (B, L) with this classifier's share, from the same features and kept cells.

        It computes with its own weights' precision, whatever that of the features is: 16 bits are too few for the
        bias, which is large beside the logits.
        """
        mean, strongest = pool(features[1], keep), strongest_cells(features[1], None if keep is None else keep[1])
        with torch.autocast(logits.device.type, enabled=False):
            own = F.linear(self.read(mean.to(self.weight), strongest.to(self.weight)), self.weight, self.bias)
        return logits + self.share * (own - logits)
