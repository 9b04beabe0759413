"""SARB: the feature of an unknown label is blended with that of an image or a prototype that has the label.

Tao Pu, Tianshui Chen, Hefeng Wu, Liang Lin: Semantic-Aware Representation Blending for Multi-Label Image Recognition
with Partial Labels, AAAI 2022. It uses the features of SSGRL. Instance level: if class c is unknown in image n and
present in image m, f = a f_n + (1 - a) f_m with the label 1 - a. Prototype level: K prototypes per class, found by
K-means over the features of its known positives, are blended in the same way with a share b, one unknown class per
image. a and b are learned and start at one half. Both blends begin after 5 of 20 epochs; the blended features are
classified, and their partial BCE is added to that of the plain features. A contrastive loss (1 - cosine between two
positives of a class, 1 + cosine between a positive and a negative) keeps the features of a class together. Values are
those of the authors' code. Ours: n's partner is its neighbour in the (shuffled) batch (theirs: its mirror image in the
batch); K-means runs online and forgets half of what a prototype has seen every epoch (theirs: runs again every 5
epochs); the contrastive loss is the mean over all pairs with a positive (theirs samples pairs and also pushes two
negatives apart).
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.draws import seed_key, uniform
from scob.methods.partial_bce import partial_bce
from scob.methods.sst import similarities, similarity_loss
from scob.methods.structure import SmallStructureSettings, Structured
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network


class SarbSettings(SmallStructureSettings):
    """Semantic-aware representation blending."""

    instance: bool = setting(True, "blend with features of another image")
    prototype: bool = setting(True, "blend with prototypes of the class")
    prototypes: int = setting(10, "K, the number of prototypes per class", 10, ge=1)
    contrast: float = setting(0.05, "weight of the contrastive loss", 0.05, ge=0)
    warm_up: float = setting(0.25, "share of the epochs before anything is blended", 0.25, ge=0, le=1)


def blend(own: Tensor, other: Tensor, where: Tensor, share: Tensor) -> Tensor:
    """share * own + (1 - share) * other at the entries `where`, own elsewhere: (B, L, D), (B, L) bool -> (B, L, D)."""
    return torch.where(where[..., None], share * own + (1 - share) * other, own)


class Prototypes(nn.Module):
    """K centres of each class's positive features, by online K-means."""

    centres: Tensor
    weight: Tensor

    def __init__(self, classes: int, count: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.zeros(classes, count, dimension))
        self.register_buffer("weight", torch.zeros(classes, count))

    @torch.no_grad()
    def learn(self, nodes: Tensor, present: Tensor, draw: Tensor) -> None:
        """Each positive feature joins its nearest centre, or an empty one (by `draw` (B, K)) if there is any."""
        classes, count, dimension = self.centres.shape
        distance = torch.cdist(nodes.transpose(0, 1), self.centres).transpose(0, 1)  # (B, L, K)
        distance = torch.where(self.weight[None] > 0, distance, -1 - draw[:, None])
        slot = distance.argmin(dim=2) + count * torch.arange(classes, device=nodes.device)  # (B, L)
        counted = present.float().flatten()
        joined = nodes.flatten(0, 1) * counted[:, None]
        sums = torch.zeros(classes * count, dimension, device=nodes.device).index_add_(0, slot.flatten(), joined)
        added = torch.zeros(classes * count, device=nodes.device).index_add_(0, slot.flatten(), counted)
        before = self.weight.flatten()
        mean = (self.centres.flatten(0, 1) * before[:, None] + sums) / (before + added).clamp(min=1e-6)[:, None]
        self.centres.copy_(torch.where((added > 0)[:, None], mean, self.centres.flatten(0, 1)).view_as(self.centres))
        self.weight.add_(added.view_as(self.weight))

    def pick(self, draw: Tensor) -> tuple[Tensor, Tensor]:
        """One centre of each class per image, by `draw` (B, L, K): (B, L, D), and whether the class has any, (B, L)."""
        picked = torch.where(self.weight[None] > 0, draw, -1.0).argmax(dim=2)  # (B, L)
        lanes = torch.arange(len(self.centres), device=draw.device)
        return self.centres[lanes, picked], (self.weight > 0).any(dim=1)[None].expand(len(draw), -1)


class Sarb(Structured):
    """Partial BCE on plain features and on features blended with those of images or prototypes that have the label."""

    name: ClassVar[str] = "sarb"
    title: ClassVar[str] = "SARB"
    Settings: ClassVar[type[Section]] = SarbSettings
    capturable = False  # the weight of prototypes is halved in an epoch's first step

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.shares = nn.Parameter(torch.zeros(2))  # logits of a and b
        self.prototypes = Prototypes(len(problem.classes), settings.prototypes, self.head.dimension)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        groups = super().groups()
        return {**groups, "other": [*groups["other"], self.shares]}

    def blended_loss(self, nodes: Tensor, observed: Tensor, where: Tensor, share: Tensor, batch: Batch) -> Tensor:
        """Partial BCE of blended features, with the label 1 - share at blended entries."""
        logits = self.network.classifier(self.head.relate(nodes)).float()
        soft = torch.where(where, 1 - share, (observed == 1).float())  # the share also learns from this label
        return partial_bce(logits, torch.where(where, 1, observed), batch.weight, self.settings, soft)

    def with_neighbour(self, nodes: Tensor, observed: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Instance level: features blended with the neighbouring image's, (B, L, D), and where, (B, L) bool."""
        where = (observed == 0) & (observed.roll(1, 0) == 1) & (real & real.roll(1, 0))[:, None]
        return blend(nodes, nodes.roll(1, 0), where, self.shares[0].sigmoid()), where

    def with_prototype(self, nodes: Tensor, observed: Tensor, real: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Prototype level: one randomly drawn unknown class per image, blended with one of its prototypes."""
        classes, count = self.prototypes.weight.shape
        draw = uniform(keys, seed_key(self.problem.seed, "prototypes"), classes * (count + 1))
        centres, exist = self.prototypes.pick(draw[:, classes:].view(-1, classes, count))
        eligible = (observed == 0) & exist & real[:, None]
        drawn = torch.where(eligible, draw[:, :classes], -1.0)
        where = eligible & (drawn == drawn.amax(dim=1, keepdim=True))
        return blend(nodes, centres.to(nodes.dtype), where, self.shares[1].sigmoid()), where

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        s, observed, real = self.settings, self.observed(batch), batch.weight > 0
        gather = self.problem.processes.gather
        if batch.step == batch.epoch * self.problem.steps_per_epoch:
            self.prototypes.weight.mul_(0.5)
        features = self.clean_features(batch)
        with autocast(features[0].device, self.source.precision):
            nodes = self.head.represent(features)
            logits = self.network.classifier(self.head.relate(nodes)).float()
            named = {"bce": partial_bce(logits, observed, batch.weight, s)}
            if s.contrast:
                known = torch.where(real[:, None], observed, 0)
                contrast = similarity_loss(similarities(nodes), known)
                named["contrast"] = s.contrast * batch.weight.sum() * contrast
            blends = batch.epoch >= s.warm_up * self.problem.epochs
            if s.instance and blends:
                blended, where = self.with_neighbour(nodes, observed, real)
                named["instance"] = self.blended_loss(blended, observed, where, self.shares[0].sigmoid(), batch)
            if s.prototype and blends:
                blended, where = self.with_prototype(nodes, observed, real, batch.keys)
                named["prototype"] = self.blended_loss(blended, observed, where, self.shares[1].sigmoid(), batch)
        optimiser.step(torch.stack(list(named.values())).sum())
        if s.prototype:
            present = gather((observed == 1) & real[:, None])
            draw = uniform(gather(batch.keys), seed_key(self.problem.seed, "empty centres"), s.prototypes)
            self.prototypes.learn(gather(nodes.detach().float()), present, draw)
        return {name: value.detach() for name, value in named.items()}
