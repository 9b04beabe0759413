"""CAP: class-aware pseudo-labels, as many positives of each class as its prior says.

Ming-Kun Xie, Jia-Hao Xiao, Hao-Zhe Liu, Gang Niu, Masashi Sugiyama, Sheng-Jun Huang: Class-Distribution-Aware
Pseudo-Labeling for Semi-Supervised Multi-Label Learning, NeurIPS 2023. Each epoch, an averaged model (EMA) has scored
all N images. Of each class with prior pi, the a * pi * N highest scores become positive and the b * (1 - pi) * N lowest
negative; what lies between is left out. The loss is ASL on the labels that are left. Ours, for one positive per image
instead of a part of the images with all labels: pi is the class's share of the observed positives times `labels.k`,
observed labels are always kept, the first epochs assume that unknown labels are absent, and scores are those of the
last visit. The authors' a, b, decay and warm-up could not be checked.
"""

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.method import Method, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.asl import AslSettings, asymmetric_costs
from scob.methods.entries import over_images
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network, follow, full

MOST = 0.95  # the highest prior


class CapSettings(AslSettings):
    """Class-aware pseudo-labels."""

    positives: float = setting(1.0, "a, the share of a class's expected positives to take", None, ge=0, le=1)
    negatives: float = setting(0.9, "b, the share of a class's expected negatives to take", None, ge=0, le=1)
    momentum: float = setting(0.99, "decay of the averaged model that scores the images", None, ge=0, lt=1)
    warm_up: int = setting(1, "epochs before the first pseudo-labels; unknown labels count as absent", None, ge=1)


def class_priors(observed: Tensor, k: float) -> Tensor:
    """The expected share of images that show each class, (N, L) in {-1, 0, 1} -> (L,).

    The share of images observed with it, scaled so that an image has k positives.
    """
    seen = (observed == 1).float().mean(dim=0)
    return (k * seen / seen.sum().clamp(min=1e-12)).clamp(max=MOST)


def prior_matched(scores: Tensor, priors: Tensor, positives: float, negatives: float) -> Tensor:
    """Pseudo-labels in {-1, 0, 1} of scores (N, L): the highest and the lowest of each class, 0 for those between."""
    count = len(scores)
    rank = torch.empty_like(scores, dtype=torch.int64)
    order = scores.argsort(dim=0, descending=True, stable=True)
    rank.scatter_(0, order, torch.arange(count, device=scores.device)[:, None].expand_as(order))
    top = (positives * priors * count).round()
    bottom = (negatives * (1 - priors) * count).round()
    return (rank < top).to(torch.int8) - (rank >= count - bottom).to(torch.int8)


class ClassAwarePseudoLabels(Method):
    """Pseudo-labels from an averaged model, as many positives per class as expected; doubtful labels are left out."""

    name: ClassVar[str] = "cap"
    title: ClassVar[str] = "CAP"
    Settings: ClassVar[type[Section]] = CapSettings
    settings: CapSettings
    capturable = True
    scored: Tensor
    pseudo: Tensor
    decided: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.averaged = nn.ModuleList((copy.deepcopy(network.head), copy.deepcopy(network.classifier)))
        self.averaged.requires_grad_(False)
        shape, device = problem.observed.shape, problem.device
        self.register_buffer("scored", torch.zeros(shape, dtype=torch.float32, device=device))
        self.register_buffer("pseudo", torch.zeros(shape, dtype=torch.int8, device=device))
        self.register_buffer("decided", torch.zeros((), dtype=torch.int64))  # the last epoch that decided

    def train(self, mode: bool = True) -> "ClassAwarePseudoLabels":
        """The averaged model always stays in evaluation mode."""
        super().train(mode)
        self.averaged.eval()
        return self

    def phase(self, epoch: int) -> str:
        return f"pseudo-labels {epoch >= self.settings.warm_up}"

    @torch.no_grad()
    def begin_epoch(self, epoch: int) -> None:
        """Decide the pseudo-labels, unless this epoch has begun already and is being resumed."""
        if epoch < self.settings.warm_up or int(self.decided) == epoch:
            return
        self.decided.fill_(epoch)
        s, observed = self.settings, self.problem.observed[:-1]
        priors = class_priors(observed, self.problem.k)
        found = prior_matched(self.scored[:-1], priors, s.positives, s.negatives)
        self.pseudo[:-1] = torch.where(observed == 0, found, observed)

    def head_replaced(self) -> None:
        self.averaged[0].load_state_dict(self.network.head.state_dict())

    @torch.no_grad()
    def score(self, features: Features) -> Tensor:
        """The averaged model's logits, (B, L)."""
        with autocast(features[0].device, self.source.precision):
            return full(self.averaged[1](self.averaged[0](features)))

    def labels_of(self, batch: Batch) -> Tensor:
        """The labels to learn from, (B, L) in {-1, 0, 1}: 0 has no cost."""
        observed = self.observed(batch)
        if batch.epoch < self.settings.warm_up:
            return torch.where(observed == 0, -1, observed)
        return self.pseudo[batch.rows]

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        features = self.clean_features(batch)
        logits, labels = self.logits(features), self.labels_of(batch)
        present, absent = asymmetric_costs(logits, self.settings)
        cost = torch.where(labels == 1, present, absent)
        loss = over_images(torch.where(labels == 0, 0.0, cost), batch.weight)
        scores = self.score((features[0].detach(), features[1].detach()))
        optimiser.step(loss)
        gather = self.problem.processes.gather
        self.scored[gather(batch.rows)] = gather(scores).to(self.scored.dtype)
        for average, part in zip(self.averaged, (self.network.head, self.network.classifier), strict=True):
            follow(average.parameters(), part.parameters(), self.settings.momentum)
        return {"asymmetric": loss.detach()}
