"""Contrast between whole images: BYOL, MoCo and SimCLR on two views of each, as Tab. 4 adds them to the baseline.

`ImageLevelContrast` replaces `Bootstrap`, the method scob, when `scob.contrast` is byol, moco or simclr.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.algorithm.batch_share import weighted_mean
from scob.algorithm.cam import leaves
from scob.algorithm.guidance import GuidedMethod, detached
from scob.algorithm.losses import l_cont
from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network, Projector, Target

KINDS = ("byol", "moco", "simclr")
QUEUE = 4096


def byol_loss(prediction: Tensor, key: Tensor, weight: Tensor | None = None) -> Tensor:
    """BYOL (Grill et al. 2020): 2 - 2 cos between unit vectors (B, D)."""
    return weighted_mean(2 - 2 * (prediction * key).sum(dim=1), weight)


def nt_xent(first: Tensor, second: Tensor, tau: float, weight: Tensor | None = None) -> Tensor:
    """SimCLR (Chen et al. 2020): every other view in the batch is a negative; unit vectors (B, D) each."""
    count = len(first)
    views = torch.cat((first, second))
    similar = views @ views.T / tau
    similar = similar.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=views.device), -torch.inf)
    partner = torch.arange(2 * count, device=views.device).roll(count)
    per_view = torch.logsumexp(similar, dim=1) - similar.gather(1, partner[:, None])[:, 0]
    return weighted_mean((per_view[:count] + per_view[count:]) / 2, weight)


class ImageContrast(nn.Module):
    """Projector, predictor, target and queue of one kind of contrast; a module, so that checkpoints include them."""

    queue: Tensor
    filled: Tensor
    place: Tensor

    def __init__(self, network: Network, projection: int, kind: str, tau: float, momentum: float) -> None:
        super().__init__()
        self.kind, self.tau, self.momentum = kind, tau, momentum
        self.projector = Projector(network.dimension, projection, "map")
        self.target = Target(network, self.projector)
        self.predictor = nn.Sequential(nn.Linear(projection, projection), nn.ReLU(), nn.Linear(projection, projection))
        self.predictor.requires_grad_(kind == "byol")
        self.register_buffer("queue", torch.zeros(QUEUE if kind == "moco" else 0, projection))
        self.register_buffer("filled", torch.zeros(len(self.queue), dtype=torch.bool))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    def forward(self, network: Network, first: Features, second: Features, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The loss for the features of two views of the same images, and the target's keys (B, D)."""
        query = self.projector.query(network.embed(first))
        if self.kind == "simclr":
            other = self.projector.query(network.embed(second))
            return nt_xent(query, other, self.tau, weight), other.detach()
        key = self.target.key(second, None)
        if self.kind == "byol":
            return byol_loss(F.normalize(self.predictor(query), dim=1), key, weight), key
        allowed = self.filled[None].expand(len(query), -1)
        return l_cont(query, key, self.queue.clone(), allowed, self.tau, weight=weight), key

    @torch.no_grad()
    def follow(self, network: Network, keys: Tensor, gather: Callable[[Tensor], Tensor]) -> None:
        """Eq. 13 for the target. MoCo's queue takes this step's keys and drops its oldest."""
        self.target.follow(network, self.projector, self.momentum)
        if self.kind == "moco":
            keys = gather(keys)
            slots = (self.place + torch.arange(len(keys), device=keys.device)) % len(self.queue)
            self.queue[slots] = keys
            self.filled.index_fill_(0, slots, True)
            self.place += len(keys)


class ImageLevelContrast(GuidedMethod):
    """L_class and a contrastive loss between two crops of the same image."""

    title = "Scob with image-level contrast"
    needs_images = True
    capturable = False
    started: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        s = self.settings
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))
        self.image_contrast = ImageContrast(network, config.model.projection, s.contrast, s.tau, s.momentum)
        self.capturable = False

    def groups(self) -> dict[str, list[nn.Parameter]]:
        mapping = [p for p in self.image_contrast.parameters() if p.requires_grad]
        return {**super().groups(), "mapping": mapping}

    def begin_epoch(self, epoch: int) -> None:
        if self.contrasts(epoch) and not self.started.item():
            self.started.fill_(True)
            self.image_contrast.target.follow(self.network, self.image_contrast.projector, 0.0)

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        if self.initial(batch.epoch):
            return self.class_step(batch, optimiser)
        s, views = self.settings, self.source.views
        assert batch.images is not None
        clean = leaves(self.clean_features(batch))
        logits = self.logits(clean)
        flip = views.flips(batch.keys, "clean")
        predicted = self.predict(logits, clean, len(logits)) if s.mask_classification else None
        masks = None if predicted is None else self.e_step(predicted, clean, batch, flip)
        losses = self.class_losses(logits, clean, masks, batch)
        if s.optimisation != "joint":
            optimiser.step(losses.total, losses.rows)
        first, second = self.source.of(
            views.crop(batch.images, batch.keys, "first"), views.crop(batch.images, batch.keys, "second")
        )
        with autocast(clean[0].device, self.source.precision):
            loss, keys = self.image_contrast(self.network, first, second, batch.weight)
            contrast = s.lambda_c * loss / (math.sqrt(self.network.classes) if s.cont_scale == "root" else 1)
        if s.optimisation == "joint":
            optimiser.step(losses.total + contrast, losses.rows)
        else:
            self.second_step(contrast, optimiser)
        self.image_contrast.follow(self.network, keys, self.problem.processes.gather)
        self.move_estimates(batch, losses.rows, optimiser.estimator_rate)
        return detached({**losses.named, "contrast": contrast})
