"""ROLE: regularised online label estimation (Cole et al., CVPR 2021), the paper's baseline; its L_class (Eq. 11-12)."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.estimator import Estimator
from scob.algorithm.losses import l_class
from scob.algorithm.method import Method, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section
from scob.model.backbone import Features
from scob.model.features import FeatureSource
from scob.model.network import Network


class Role(Method):
    """Predictions and a row of estimated labels an image teach each other."""

    name: ClassVar[str] = "role"
    title: ClassVar[str] = "ROLE"
    Settings: ClassVar[type[Section]] = Section
    capturable = True

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.estimator = Estimator(problem.observed, problem.keys, problem.seed, place=problem.rows)
        self.capturable = self.capturable and problem.rows.kind == "device"

    def class_loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Eq. 12 and the leaf of estimator rows its gradient will gather in."""
        rows = self.estimator.rows(batch.rows)
        loss = l_class(
            logits.sigmoid(), rows.sigmoid(), self.observed(batch), self.problem.k, batch.weight,
            self.problem.processes.collect, 1 / self.problem.processes.count,
        )  # fmt: skip
        return loss, rows

    def move_estimates(self, batch: Batch, rows: Tensor) -> None:
        """Update Y~ of the batch's images: the same rows, by the same gradients, on every process."""
        assert rows.grad is not None
        gather = self.problem.processes.gather
        # Each image's gradient is scaled back to that of its own loss: Adam is all but blind to it, and the update
        # does then not depend on the batch size.
        gradient = rows.grad / batch.weight.clamp(min=1e-12)[:, None]
        gradient = torch.where(batch.weight[:, None] > 0, gradient, 0.0)
        self.estimator.move(gather(batch.rows), gather(gradient), self.optimiser.estimator_rate)

    def leaves(self, features: Features) -> Features:
        """Features that a class activation can be differentiated to, without reaching a frozen backbone."""
        third, fourth = (f if f.requires_grad else f.detach().requires_grad_() for f in features)
        return third, fourth

    def step(self, batch: Batch) -> dict[str, Tensor]:
        loss, rows = self.class_loss(self.logits(self.clean_features(batch)), batch)
        self.optimiser.step(loss, rows)
        self.move_estimates(batch, rows)
        return {"class": loss.detach()}

    def estimates(self) -> Tensor | None:
        return self.estimator.probabilities()
