"""Averaged weights, which are evaluated in place of the live ones."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from scob.model.network import follow
from scob.training.build import Experiment


class Average:
    """An exponential moving average of the trained weights of the network, for evaluation."""

    def __init__(self, experiment: Experiment) -> None:
        self.decay = experiment.config.train.ema
        self.live: list[Tensor] = [p for p in experiment.network.parameters() if p.requires_grad]
        self.kept = [p.detach().clone() for p in self.live] if self.decay else []

    def follow(self, step: int) -> None:
        """Move towards the live weights; early on by the plain mean of what there was."""
        if self.decay:
            follow(self.kept, self.live, min(self.decay, (1 + step) / (10 + step)))

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """The network with averaged weights."""
        if not self.decay:
            yield
            return
        own = [p.detach().clone() for p in self.live]
        with torch.no_grad():
            torch._foreach_copy_(self.live, self.kept)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.live, own)
