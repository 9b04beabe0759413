"""Base class of methods that keep the last logits of every training image and revisit them once per epoch.

The logits are a buffer, revisited in an epoch's first step, so a resumed run does exactly the same.
"""

from typing import Any

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config
from scob.model.features import FeatureSource
from scob.model.network import Network


class Remembering(LossMethod):
    """Keeps the last logits of every training image; `review` runs before the first step of each later epoch."""

    remembered: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.register_buffer(
            "remembered", torch.zeros(problem.observed.shape, dtype=torch.float32, device=problem.device)
        )

    def review(self, epoch: int) -> None:
        """Update labels from `remembered` (N + 1, L), the logits of the epoch before; the last row is padding."""

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        if batch.epoch and batch.step == batch.epoch * self.problem.steps_per_epoch:
            with torch.no_grad():
                self.review(batch.epoch)
        logits = self.logits(self.clean_features(batch))
        terms = self.losses(logits, self.observed(batch), batch)
        optimiser.step(torch.stack(list(terms.values())).sum())
        gather = self.problem.processes.gather
        self.remembered[gather(batch.rows)] = gather(logits.detach())
        return {name: value.detach() for name, value in terms.items()}
