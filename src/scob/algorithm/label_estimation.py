"""L_class with online label estimation: what Scob shares with its baseline ROLE (Cole et al., CVPR 2021)."""

from typing import Any

import torch
from torch import Tensor

from scob.algorithm.dense_estimator import DenseEstimator
from scob.algorithm.estimator import Estimator
from scob.algorithm.losses import l_class
from scob.algorithm.method import Method, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config
from scob.model.features import FeatureSource
from scob.model.network import Network


class LabelEstimation(Method):
    """Predictions and estimated labels (one row per training image) teach each other."""

    capturable = True

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        kind = DenseEstimator if config.train.estimator == "dense" else Estimator
        self.estimator = kind(problem.observed, problem.keys, problem.seed, storage=problem.rows)
        self.capturable = problem.rows.kind == "device"

    def class_loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Eq. 12, and the estimator's rows of the batch (B, L), whose `.grad` the optimiser sets."""
        rows = self.estimator.rows(batch.rows)
        loss = l_class(logits.sigmoid(), rows.sigmoid(), self.observed(batch), self.problem.k, self.share(batch))
        return loss, rows

    def move_estimates(self, batch: Batch, rows: Tensor, rate: Tensor | float) -> None:
        """Update Y~ of the batch's images: every process moves the same rows by the same gradients."""
        assert rows.grad is not None
        gather = self.problem.processes.gather
        # Dividing by the weight gives the gradient of each image's own loss, so the update does not depend on the
        # batch size. (Adam hardly notices the scale.)
        gradient = rows.grad / batch.weight.clamp(min=1e-12)[:, None]
        gradient = torch.where(batch.weight[:, None] > 0, gradient, 0.0)
        self.estimator.move(gather(batch.rows), gather(gradient), rate)

    def update(self, loss: Tensor, rows: Tensor, batch: Batch, optimiser: Optimiser) -> None:
        """One step on a loss that includes L_class: move the weights, then the estimates Y~."""
        optimiser.step(loss, rows)
        self.move_estimates(batch, rows, optimiser.estimator_rate)

    def class_step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        """One iteration of L_class alone: ROLE, and the initial phase of Scob."""
        loss, rows = self.class_loss(self.logits(self.clean_features(batch)), batch)
        self.update(loss, rows, batch, optimiser)
        return {"class": loss.detach()}

    def estimates(self) -> Tensor | None:
        return self.estimator.probabilities()
