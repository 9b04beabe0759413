"""Curriculum labelling: partial BCE whose unknown labels are filled in where the model is confident.

Thibaut Durand, Nazanin Mehrasa, Greg Mori: Learning a Deep ConvNet for Multi-label Classification with Partial
Labels, CVPR 2019, the score-threshold strategy. After a warm-up on known labels, every epoch starts by filling in
unknown labels from the logits of the epoch before: present if the logit was at least theta, absent if it was at most
-theta. The choice is made anew each time. The loss is partial BCE over known and filled-in labels. theta = 2, as in
others' implementations of the paper's strategy (a); the length of the paper's warm-up could not be checked.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.memory import Remembering
from scob.methods.partial_bce import PartialBceSettings, partial_bce
from scob.model.features import FeatureSource
from scob.model.network import Network


class CurriculumSettings(PartialBceSettings):
    """Curriculum labelling."""

    theta: float = setting(2.0, "absolute logit from which an unknown label is filled in", 2.0, gt=0)
    warm_up: float = setting(0.25, "share of the epochs trained on known labels alone", None, ge=0, le=1)


class Curriculum(Remembering):
    """Partial BCE on known labels and on those the model has become confident about."""

    name: ClassVar[str] = "curriculum"
    title: ClassVar[str] = "Curriculum labelling"
    Settings: ClassVar[type[Section]] = CurriculumSettings
    settings: CurriculumSettings
    taken: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.register_buffer("taken", torch.zeros_like(problem.observed))

    def review(self, epoch: int) -> None:
        """Fill in the unknown labels that the model was confident about in the epoch before."""
        if epoch < self.settings.warm_up * self.problem.epochs:
            return
        confident = (self.remembered.abs() >= self.settings.theta) & (self.problem.observed == 0)
        self.taken.copy_(self.remembered.sign().to(torch.int8) * confident)

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"bce": partial_bce(logits, observed + self.taken[batch.rows], batch.weight, self.settings)}
