"""SARB: the feature of an unknown label is blended with that of an image or a prototype that has the label.

Tao Pu, Tianshui Chen, Hefeng Wu, Liang Lin: Semantic-Aware Representation Blending for Multi-Label Image Recognition
with Partial Labels, AAAI 2022. It uses the features of SSGRL. Instance level: if class c is unknown in image n and
present in image m, f = a f_n + (1 - a) f_m with the label 1 - a. Prototype level: K prototypes per class, found by
K-means over the features of its known positives, are blended in the same way with a share b, one unknown class per
image. a and b are learned and start at one half. Both blends begin after 5 of 20 epochs; the blended features are
classified, and their BCE is added to that of the plain features; each is a mean over the batch's known (and blended)
labels. The contrastive loss is the similarity loss of SST; it keeps the features of a class together. Values are those
of the authors' code. Ours: n's partner is its neighbour in the (shuffled) batch (theirs: its mirror image in the
batch); K-means runs online and forgets half of what a prototype has seen every epoch (theirs: runs again every 5
epochs); each image draws a prototype of its own (theirs: one draw for the batch); the weight of the contrastive loss
applies in full from the start (theirs rises during the first epoch).
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.draws import seed_key, uniform
from scob.methods.sst import similarities, similarity_loss
from scob.methods.structure import SmallStructured, SmallStructureSettings
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network

SAME = 1e-4  # features closer than this share of their length are one
CLEARLY = 4.0  # how many times costlier than a merger a feature must be to take a centre: noise does not


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
    """K centres of each class's positive features, by online K-means.

    A feature joins the nearest centre. Before that, the feature farthest from all centres becomes a centre of its own
    if one is free, or if merging two others adds clearly less to the squared distances than it would; so a new cluster
    finds a centre even if all are taken, and equal features never take two. Unused centres get light and merge first.
    """

    centres: Tensor
    weight: Tensor

    def __init__(self, classes: int, count: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.zeros(classes, count, dimension))
        self.register_buffer("weight", torch.zeros(classes, count))

    @torch.no_grad()
    def learn(self, nodes: Tensor, present: Tensor) -> None:
        """Features (B, L, D) of a batch, where `present` (B, L) bool: new centres first, then all join the nearest."""
        features, waiting = nodes.transpose(0, 1), present.T.clone()  # class by class: (L, B, D), (L, B)
        for _ in range(min(features.shape[1], self.weight.shape[1])):
            self.start_centres(features, waiting)
        nearest = self.distances(features).argmin(dim=2)  # (L, B)
        joins = F.one_hot(nearest, self.weight.shape[1]).to(features.dtype) * waiting[..., None]  # (L, B, K)
        joined, sums = joins.sum(dim=1), joins.transpose(1, 2) @ features
        mean = (self.centres * self.weight[..., None] + sums) / (self.weight + joined).clamp(min=1e-6)[..., None]
        self.centres.copy_(torch.where((joined > 0)[..., None], mean, self.centres))
        self.weight.add_(joined)

    def distances(self, features: Tensor) -> Tensor:
        """From features (L, B, D) to the centres of their class, infinite to a free centre: (L, B, K)."""
        distance = torch.cdist(features, self.centres, compute_mode="donot_use_mm_for_euclid_dist")  # 0 if equal
        return distance.masked_fill((self.weight == 0)[:, None], torch.inf)

    def start_centres(self, features: Tensor, waiting: Tensor) -> None:
        """In each class, make the waiting feature (L, B) farthest from all centres a centre, if that is worth one."""
        lanes = torch.arange(len(features), device=features.device)
        gap = torch.where(waiting, self.distances(features).amin(dim=2), -1.0)  # (L, B)
        gap, newcomer = gap.max(dim=1)
        feature = features[lanes, newcomer]  # (L, D)
        free = self.weight == 0
        one, other, cost = self.cheapest_merge()
        distinct = gap > SAME * feature.norm(dim=1)
        merges = distinct & ~free.any(dim=1) & (CLEARLY * cost < gap.square())
        starts = merges | (distinct & free.any(dim=1))
        a, b = self.weight[lanes, one], self.weight[lanes, other]
        merged = (self.centres[lanes, one] * a[:, None] + self.centres[lanes, other] * b[:, None]) / (a + b)[:, None]
        self.centres[lanes, one] = torch.where(merges[:, None], merged, self.centres[lanes, one])
        self.weight[lanes, one] = torch.where(merges, a + b, a)
        slot = torch.where(merges, other, free.int().argmax(dim=1))
        self.centres[lanes, slot] = torch.where(starts[:, None], feature, self.centres[lanes, slot])
        self.weight[lanes, slot] = torch.where(starts, 1.0, self.weight[lanes, slot])
        waiting[lanes, newcomer] &= ~starts

    def cheapest_merge(self) -> tuple[Tensor, Tensor, Tensor]:
        """The two centres of each class whose merger adds least to the squared distances, and how much: (L,) each.

        Two centres with a and b members add a b / (a + b) times their squared distance (Ward's criterion).
        """
        count = self.weight.shape[1]
        a, b = self.weight[:, :, None], self.weight[:, None]
        cost = a * b / (a + b).clamp(min=1e-6) * torch.cdist(self.centres, self.centres).square()
        upper = torch.ones(count, count, dtype=torch.bool, device=cost.device).triu(1)
        least, pair = torch.where(upper, cost, torch.inf).flatten(1).min(dim=1)
        return pair // count, pair % count, least

    def pick(self, draw: Tensor) -> tuple[Tensor, Tensor]:
        """One centre of each class per image, by `draw` (B, L, K): (B, L, D), and whether the class has any, (B, L)."""
        picked = torch.where(self.weight[None] > 0, draw, -1.0).argmax(dim=2)  # (B, L)
        lanes = torch.arange(len(self.centres), device=draw.device)
        return self.centres[lanes, picked], (self.weight > 0).any(dim=1)[None].expand(len(draw), -1)


class Sarb(SmallStructured):
    """BCE on plain features and on features blended with those of images or prototypes that have the label."""

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
        """BCE of blended features, with the label 1 - share at blended entries."""
        logits = self.network.classifier(self.head.relate(nodes)).float()
        soft = torch.where(where, 1 - share, (observed == 1).float())  # the share also learns from this label
        return self.bce(logits, torch.where(where, 1, observed), batch, soft)

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
            named = {"bce": self.bce(logits, observed, batch)}
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
            self.prototypes.learn(gather(nodes.detach().float()), gather((observed == 1) & real[:, None]))
        return {name: value.detach() for name, value in named.items()}
