"""A backbone: two feature maps of an image.

A ResNet gives stage 3 and stage 4, as in the paper. The layers of a ViT share one resolution: we take the
layer at three quarters of its depth, and the last. BatchNorm always uses stored statistics.
"""

import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from scob.errors import UserError

Features = tuple[Tensor, Tensor]


class Backbone(nn.Module):
    """Images to two feature maps: (B, 3, S, S) -> (B, C3, h3, w3), (B, C4, h4, w4)."""

    def __init__(self, body: nn.Module, name: str, freeze: str = "all") -> None:
        super().__init__()
        self.body, self.name, self.freeze = body, name, freeze
        self.channels: tuple[int, int] = tuple(body.channels[-2:])  # type: ignore[index]
        for parameter in self.body.parameters():
            parameter.requires_grad_(freeze == "none")
        if freeze == "stages":
            for parameter in self._last_stage():
                parameter.requires_grad_(True)
        self.train(False)

    def _last_stage(self) -> Iterable[nn.Parameter]:
        """The parameters of the last stage (of a ViT, the last quarter of its layers)."""
        numbered = [
            (int(match.group(1)), p)
            for n, p in self.body.named_parameters()
            if (match := re.search(r"(?:stages|layers|layer)\.(\d+)\.", n))
        ]
        if not numbered:
            raise UserError(f"the backbone {self.name} has no numbered stages: use model.freeze=all or none")
        count = 1 + max(number for number, _ in numbered)
        first = count - max(1, count // 4)
        return [p for number, p in numbered if number >= first]

    @property
    def keeps_statistics(self) -> bool:
        """Whether its BatchNorm statistics must stay as published."""
        return bool(getattr(self.body, "keeps_statistics", False))

    @property
    def frozen(self) -> bool:
        return self.freeze == "all"

    def train(self, mode: bool = True) -> "Backbone":
        """Always stay in evaluation mode: even when fine-tuned, BatchNorm and stochastic depth act as at test time."""
        return super().train(False)

    def forward(self, images: Tensor) -> Features:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            maps = self.body(images).feature_maps
        return maps[-2], maps[-1]

    def grids(self, size: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Spatial shapes of the two maps for square inputs of `size`."""
        weight = next(self.body.parameters())
        with torch.no_grad():
            third, fourth = self(torch.zeros(1, 3, size, size, device=weight.device, dtype=weight.dtype))
        return (third.shape[2], third.shape[3]), (fourth.shape[2], fourth.shape[3])

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Tensor]) -> int:
        """Re-estimate BatchNorm statistics as the plain average over `batches` of views; returns the image count."""
        norms = [m for m in self.modules() if isinstance(m, nn.BatchNorm2d)]
        if not norms:
            return 0
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # cumulative average
            norm.training = True
        seen = 0
        for views in batches:
            self.body(views)
            seen += len(views)
        for norm in norms:
            norm.momentum, norm.training = 0.1, False
        return seen
