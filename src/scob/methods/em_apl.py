"""Entropy maximisation with asymmetric pseudo-labels: the least likely unknown labels become soft negatives.

Donghao Zhou, Pengfei Chen, Qiong Wang, Guangyong Chen, Pheng-Ann Heng: Acknowledging the Unknown for Multi-label
Learning with Single Positive Labels, ECCV 2022. After a warm-up with the EM loss, each epoch turns the unknown labels
with the lowest predictions of each class into pseudo-labels, an equal number every epoch, until they are a share theta
of the class's unknown labels; none becomes a pseudo-positive. A pseudo-label is the prediction q at that moment; it
never changes and costs beta * BCE(p, q). All other labels keep the EM loss. theta = 0.9; alpha, beta and the epochs of
warm-up out of 10 are 0.2, 0.02 and 5 on VOC (COCO: 0.1, 0.9, 5; NUS-WIDE: 0.1, 0.2, 4; CUB: 0.01, 0.4, 3). Ours:
predictions are those made in the epoch's own steps; the authors make an extra pass over the training images.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.em import EmSettings, em_entries
from scob.methods.entries import over_images, soft_cost
from scob.methods.memory import Remembering
from scob.model.features import FeatureSource
from scob.model.network import Network


class EmAplSettings(EmSettings):
    """Entropy maximisation and asymmetric pseudo-labelling."""

    beta: float = setting(0.02, "weight of pseudo-labels", 0.02, ge=0)
    theta: float = setting(0.9, "share of a class's unknown labels that end up as pseudo-labels", 0.9, ge=0, le=1)
    warm_up: float = setting(0.5, "share of the epochs before the first pseudo-labels", 0.5, ge=0, le=1)


class AsymmetricPseudoLabels(Remembering):
    """The EM loss, and soft pseudo-negatives for the least likely unknown labels, more of them with each epoch."""

    name: ClassVar[str] = "em-apl"
    title: ClassVar[str] = "EM + APL"
    Settings: ClassVar[type[Section]] = EmAplSettings
    settings: EmAplSettings
    pseudo: Tensor
    decided: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.register_buffer("pseudo", torch.zeros_like(self.remembered))
        self.register_buffer("decided", torch.zeros_like(self.remembered, dtype=torch.bool))

    def review(self, epoch: int) -> None:
        """Decide the least likely labels of each class, up to this epoch's share; earlier decisions stay."""
        s, total = self.settings, self.problem.epochs
        first = max(1, round(s.warm_up * total))
        if epoch < first:
            return
        share = s.theta * (epoch - first + 1) / max(1, total - first)
        unknown = self.problem.observed == 0
        unknown[-1] = False
        undecided = unknown & ~self.decided
        rank = torch.where(undecided, self.remembered, torch.inf).argsort(dim=0).argsort(dim=0)
        selected = undecided & (rank < share * unknown.sum(dim=0) - self.decided.sum(dim=0))
        self.pseudo.copy_(torch.where(selected, self.remembered.sigmoid(), self.pseudo))
        self.decided.logical_or_(selected)

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        s = self.settings
        decided, cross = self.decided[batch.rows], soft_cost(logits, self.pseudo[batch.rows])
        undecided = em_entries(logits, observed, s.alpha)
        return {
            "entropy": over_images(torch.where(decided, 0.0, undecided), batch.weight),
            "pseudo": over_images(torch.where(decided, s.beta * cross, 0.0), batch.weight),
        }
