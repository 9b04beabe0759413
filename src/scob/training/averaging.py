"""Averaged weights, which are evaluated in place of the live ones."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from scob.model.network import follow


class Average:
    """An exponential moving average of a network's trained weights, for evaluation. `decay` 0 keeps none."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live: list[Tensor] = [p for p in network.parameters() if p.requires_grad]
        self.averages = [p.detach().clone() for p in self.live] if decay else []

    def follow(self, step: int) -> None:
        """Move towards the live weights; early on the average moves faster."""
        if self.decay:
            follow(self.averages, self.live, min(self.decay, (1 + step) / (10 + step)))

    def adopt(self) -> None:
        """Give the network the averaged weights for good."""
        if self.decay:
            with torch.no_grad():
                torch._foreach_copy_(self.live, self.averages)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Inside this context the network has the averaged weights."""
        if not self.decay:
            yield
            return
        saved = [p.detach().clone() for p in self.live]
        with torch.no_grad():
            torch._foreach_copy_(self.live, self.averages)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.live, saved)
