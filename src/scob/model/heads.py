"""Heads that read the two backbone stages: two SMTs, the paper's convolutional baselines, or average pooling alone.

Widths and parameters for ResNet-50, 80 classes and `width` 512, with backbone and classifier (the paper prints the
totals 36.6M, 45.0M and 38.3M, but no layers):
cnn        3x3 2048->512, 3x3 512->768 on stage 4                      36.55M
large-cnn  as cnn, then 3x3 768->768 (residual) and 3x3 768->448       44.93M
smt        two SMTs                                                    37.79M, with a Linear(1024, 512) mapping 38.32M
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.config import ModelSettings
from scob.model.backbone import Features
from scob.model.smt import SemanticMaskedTransformer
from scob.model.visible_cells import masked_mean

Keep = tuple[Tensor, Tensor]
Grids = tuple[tuple[int, int], tuple[int, int]]


class SmtHead(nn.Module):
    """Two SMTs, their outputs side by side (multi-scale, appendix C): -> (B, 2 * width)."""

    def __init__(self, channels: tuple[int, int], grids: Grids, settings: ModelSettings) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            SemanticMaskedTransformer(c, g, settings) for c, g in zip(channels, grids, strict=True)
        )
        self.dimension = 2 * settings.width

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        masks = keep if keep is not None else (None, None)
        return torch.cat([s(f, m) for s, f, m in zip(self.stages, features, masks, strict=True)], dim=1)


class ConvHead(nn.Module):
    """The paper's baseline: 3x3 convolutions on stage 4, then the mean over the kept cells."""

    def __init__(self, channels: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        sizes = (channels, *widths)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes))
        for convolution in self.convolutions:
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")  # type: ignore[arg-type]
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        self.dimension = widths[-1]

    def cells(self, x: Tensor) -> Tensor:
        """Stage 4 after the convolutions, before the mean."""
        for convolution in self.convolutions:
            y = F.relu(convolution(x))
            x = x + y if x.shape == y.shape else y
        return x

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        return pool(self.cells(features[1]), keep)


class LinearHead(nn.Module):
    """Stage 4, averaged."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dimension = channels

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        return pool(features[1], keep)


Head = SmtHead | ConvHead | LinearHead


def pool(cells: Tensor, keep: Keep | None) -> Tensor:
    """Mean over the cells (B, C, h, w) -> (B, C), or over the kept ones if a mask is given."""
    if keep is None:
        return cells.mean(dim=(2, 3))
    seen = keep[1].flatten(1)
    return masked_mean(cells.flatten(2).transpose(1, 2), seen | ~seen.any(dim=1, keepdim=True))


def build_head(channels: tuple[int, int], grids: Grids, settings: ModelSettings) -> Head:
    """The head that `model.head` names."""
    w = settings.width
    if settings.head == "smt":
        return SmtHead(channels, grids, settings)
    if settings.head == "cnn":
        return ConvHead(channels[1], (w, 3 * w // 2))
    if settings.head == "large-cnn":
        return ConvHead(channels[1], (w, 3 * w // 2, 3 * w // 2, 7 * w // 8))
    return LinearHead(channels[1])
