"""SST: unknown labels are completed from co-occurrence within the image and from similar images.

Tianshui Chen, Tao Pu, Hefeng Wu, Yuan Xie, Liang Lin: Structured Semantic Transfer for Multi-Label Recognition with
Partial Labels, AAAI 2022. It uses the features of SSGRL. Within an image: a small network reads the features of two
classes and predicts how likely the second is present given the first. It learns from pairs of known labels (BCE), and
an unknown label becomes positive when the mean over the known positives reaches theta. Across images: the cosine
between two images' features of one class is drawn to 1 if both have it and to -1 if one or both lack it; an unknown
label becomes positive when its mean cosine to the images that have it reaches theta. Both begin after a warm-up
of 5 of 20 epochs, at theta = 0.95, which falls by 0.025 per epoch to 0.75. Each set of completed labels, together with
the known ones, adds one more BCE. Each BCE is a mean over the batch's known (and completed) labels, the co-occurrence
loss one over all pairs of classes, the similarity loss one over a sample of pairs of images. Values are those of the
authors' code. Ours: P(d | c) comes from one network for all pairs and learns from known pairs by BCE (theirs: separate
weights for each unordered pair, the asymmetric loss with gamma 2 and 1, unknown labels as absent); the positives to
compare with are those of the batch (theirs: the last 100 of each class); the similarity loss is the expectation over
the samples that they draw; the weights of both losses apply in full from the start (theirs rise during the first
epoch).
"""

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.entries import absent_cost, present_cost
from scob.methods.structure import SmallStructured, SmallStructureSettings
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network


class SstSettings(SmallStructureSettings):
    """Structured semantic transfer."""

    intra: bool = setting(True, "complete labels from the same image")
    cross: bool = setting(True, "complete labels from other images of the batch")
    theta_intra: float = setting(
        0.95, "mean co-occurrence from which an unknown label becomes positive", 0.95, ge=0, le=1
    )
    theta_cross: float = setting(0.95, "mean cosine from which an unknown label becomes positive", 0.95, ge=-1, le=1)
    theta_fall: float = setting(0.025, "how far both thresholds drop per epoch after the warm-up", 0.025, ge=0)
    theta_least: float = setting(0.75, "where both thresholds stop falling", 0.75, ge=-1, le=1)
    lambda_intra: float = setting(10.0, "weight of the co-occurrence loss", 10.0, ge=0)
    lambda_cross: float = setting(0.05, "weight of the similarity loss", 0.05, ge=0)
    warm_up: float = setting(0.25, "share of the epochs before labels are completed", 0.25, ge=0, le=1)


class Occurrence(nn.Module):
    """How likely class d is present given that c is, from the image's features of both: (B, L, D) -> (B, L, L)."""

    def __init__(self, dimension: int, joint: int) -> None:
        super().__init__()
        self.given, self.asked = nn.Linear(dimension, joint), nn.Linear(dimension, joint, bias=False)
        self.score = nn.Linear(joint, 1)

    def forward(self, nodes: Tensor) -> Tensor:
        """Logits: row c, column d."""
        both = F.relu(self.given(nodes)[:, :, None] + self.asked(nodes)[:, None])
        return self.score(both)[..., 0]  # type: ignore[no-any-return]


def occurrence_loss(logits: Tensor, observed: Tensor) -> Tensor:
    """BCE of P(d | c) for known pairs with c present, as a mean over all pairs: (B, L, L), (B, L) -> a scalar.

    The authors' mean is over all pairs, too. One over the known pairs alone, at lambda = 10, dominates the features.
    """
    distinct = ~torch.eye(observed.shape[1], dtype=torch.bool, device=observed.device)
    pairs = (observed == 1)[:, :, None] & (observed != 0)[:, None] & distinct
    cost = torch.where((observed == 1)[:, None], present_cost(logits), absent_cost(logits))
    return (cost * pairs).sum() / (len(observed) * distinct.sum()).clamp(min=1)


def similarity_loss(similar: Tensor, observed: Tensor) -> Tensor:
    """1 - s for two images that have the class, 1 + s if one or both lack it: (L, B, B), (B, L) -> a scalar.

    A mean over every pair that has the class (P of them) and, of the pairs in which one lacks it and of those in which
    both do, 2 P drawn at random and the P most similar; over all of them if P is 0. Ours: the expectation of the draw.
    """
    first, second = torch.triu_indices(len(observed), len(observed), offset=1, device=observed.device)
    cosine, known = similar[:, first, second], observed.T
    one, other = known[:, first], known[:, second]
    alike = (one == 1) & (other == 1)
    pairs = alike.sum()
    total, count = ((1 - cosine) * alike).sum(), pairs
    for apart in (one * other == -1, (one == -1) & (other == -1)):
        cost, available = 1 + cosine, apart.sum()
        drawn = torch.where(pairs > 0, torch.minimum(2 * pairs, available), available)
        hardest = torch.minimum(pairs, available)
        ordered = torch.where(apart, cost, -torch.inf).flatten().sort(descending=True).values
        rank = torch.arange(len(ordered), device=ordered.device)
        total = total + (cost * apart).sum() / available.clamp(min=1) * drawn
        total = total + torch.where(rank < hardest, ordered, 0.0).sum()
        count = count + drawn + hardest
    return total / count.clamp(min=1)


def similarities(nodes: Tensor) -> Tensor:
    """Cosines between images, class by class: (B, L, D) -> (L, B, B)."""
    unit = F.normalize(nodes.float(), dim=2)
    return torch.einsum("nch,mch->cnm", unit, unit)


def from_image(logits: Tensor, observed: Tensor, theta: float) -> Tensor:
    """Unknown labels that are likely given the known ones: (B, L) bool."""
    has = (observed == 1).float()
    mean = torch.einsum("bc,bcd->bd", has, logits.sigmoid()) / has.sum(dim=1, keepdim=True).clamp(min=1)
    return (observed == 0) & (mean >= theta) & (has.sum(dim=1, keepdim=True) > 0)


def from_others(similar: Tensor, observed: Tensor, theta: float) -> Tensor:
    """Unknown labels whose features resemble those of the images that have the label: (B, L) bool."""
    has = (observed == 1).float()
    mean = torch.einsum("cnm,mc->nc", similar, has) / has.sum(dim=0).clamp(min=1)
    return (observed == 0) & (mean >= theta) & (has.sum(dim=0) > 0)


class Sst(SmallStructured):
    """BCE on known labels and on those transferred within and between images."""

    name: ClassVar[str] = "sst"
    title: ClassVar[str] = "SST"
    Settings: ClassVar[type[Section]] = SstSettings

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.occurrence = Occurrence(self.head.dimension, int(self.head.recipe["joint"]))

    def groups(self) -> dict[str, list[nn.Parameter]]:
        groups = super().groups()
        return {**groups, "other": [*groups["other"], *self.occurrence.parameters()]}

    def fallen(self, epoch: int) -> float | None:
        """How far the thresholds have fallen by this epoch; None during the warm-up."""
        first = math.ceil(self.settings.warm_up * self.problem.epochs)
        return self.settings.theta_fall * (epoch - first) if epoch >= first else None

    def threshold(self, start: float, fallen: float) -> float:
        """The threshold after that fall, but not below `theta_least` (a threshold that starts lower stays)."""
        least: float = self.settings.theta_least
        return max(min(start, least), start - fallen)

    def phase(self, epoch: int) -> str:
        fallen, s = self.fallen(epoch), self.settings
        if fallen is None:
            return "warm-up"
        return f"completes at {self.threshold(s.theta_intra, fallen)}, {self.threshold(s.theta_cross, fallen)}"

    def terms(self, nodes: Tensor, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The named losses, from features (B, L, D) before the graph and logits (B, L) after it."""
        s, share = self.settings, batch.weight.sum()
        observed = torch.where((batch.weight > 0)[:, None], observed, 0)
        named = {"bce": self.bce(logits, observed, batch)}
        fallen = self.fallen(batch.epoch)
        if s.intra:
            pairs = self.occurrence(nodes).float()
            named["occurrence"] = s.lambda_intra * share * occurrence_loss(pairs, observed)
            if fallen is not None:
                completed = from_image(pairs.detach(), observed, self.threshold(s.theta_intra, fallen))
                named["intra"] = self.bce(logits, torch.where(completed, 1, observed), batch)
        if s.cross:
            similar = similarities(nodes)
            named["similarity"] = s.lambda_cross * share * similarity_loss(similar, observed)
            if fallen is not None:
                completed = from_others(similar.detach(), observed, self.threshold(s.theta_cross, fallen))
                named["cross"] = self.bce(logits, torch.where(completed, 1, observed), batch)
        return named

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        features = self.clean_features(batch)
        with autocast(features[0].device, self.source.precision):
            nodes = self.head.represent(features)
            logits = self.network.classifier(self.head.relate(nodes)).float()
            named = self.terms(nodes, logits, self.observed(batch), batch)
        optimiser.step(torch.stack(list(named.values())).sum())
        return {name: value.detach() for name, value in named.items()}
