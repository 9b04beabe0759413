"""Algorithm 1: semantic contrastive bootstrapping by expectation-maximisation, one iteration on one screen.

`Bootstrap.iteration` is Algorithm 1. The lines about masks and L_class are in its base classes: `GuidedMethod.e_step`
(guidance.py) and `LabelEstimation.update` (label_estimation.py). docs/paper.md says how we read the paper where it
leaves a choice; `ScobSettings` has the choices that are settings.
"""

import math
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.cam import leaves
from scob.algorithm.guidance import GuidedMethod, detached
from scob.algorithm.ipt import InstancePriorityTree
from scob.algorithm.losses import contrast_divisor, l_cont
from scob.algorithm.masks import MaskBank, flip_masks
from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.algorithm.step_views import StepViews, compute_views
from scob.config import Config
from scob.draws import mix_tensor, seed_key, uniform
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.heads import Keep
from scob.model.network import Network, Projector, Target


class Bootstrap(GuidedMethod):
    """Scob: L_class (Eq. 12) and an object-level contrastive loss (Eq. 8) under masks from the E-step."""

    name: ClassVar[str] = "scob"
    title: ClassVar[str] = "Scob"
    started: Tensor
    tree_epoch: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        s = self.settings
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))
        if s.tree_lifetime == "epoch":
            self.register_buffer("tree_epoch", torch.full((), -1, dtype=torch.int64))
        self.needs_images = s.contrast != "none"
        self.needs_positives = s.contrast != "none" and s.positive == "class" and source.cache is None
        if s.contrast != "none":
            self.projector = Projector(network.dimension, config.model.projection, config.model.projector)
            self.target = Target(network, self.projector)
            capacity = max(s.capacity, s.negatives)
            self.tree = InstancePriorityTree(
                len(problem.classes), capacity, self.projector.dimension, problem.images, problem.device
            )
            self.bank = MaskBank(problem.images, problem.grids, problem.device, problem.rows)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        mapping = list(self.projector.parameters()) if self.settings.contrast != "none" else []
        return {**super().groups(), "mapping": mapping}

    def begin_epoch(self, epoch: int) -> None:
        """Bootstrapping starts from Theta^0: in its first epoch the target equals the online network.

        With `tree_lifetime=epoch` the tree starts anew, unless this epoch has begun already and is being resumed.
        """
        if not self.contrasts(epoch):
            return
        if not self.started.item():
            self.started.fill_(True)
            self.target.follow(self.network, self.projector, 0.0)
        if self.settings.tree_lifetime == "epoch" and self.tree_epoch.item() != epoch:
            self.tree_epoch.fill_(epoch)
            self.tree.clear()

    def head_replaced(self) -> None:
        if self.settings.contrast != "none":
            self.target.head.load_state_dict(self.network.head.state_dict())

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        """Algorithm 1; L_class alone in the initial phase (Theta^0) and without contrast."""
        if self.contrasts(batch.epoch):
            return self.iteration(batch, optimiser)
        if self.settings.mask_classification and not self.initial(batch.epoch):
            return self.masked_class_step(batch, optimiser)
        return self.class_step(batch, optimiser)

    def contrasted(self, batch: Batch) -> Batch:
        """The share `scob.contrasted` of the batch's images: its first ones, since it is in random order.

        Together they weigh as much as the whole batch. Of a padded batch only the device knows how many these are: the
        shape is that of a full batch, and images that are too many become padding.
        """
        if self.settings.contrasted == 1 or self.settings.contrast == "none":
            return batch
        share = self.settings.contrasted * (1 - 1e-6)  # a rounding error must not add an image
        processes, part = self.problem.processes, batch.first(math.ceil(share * len(batch.rows)))
        images = processes.total((batch.weight > 0).sum())
        count = (share * images).ceil()
        inside = torch.arange(len(part.rows), device=part.rows.device) * processes.count + processes.rank < count
        return replace(
            part,
            rows=torch.where(inside, part.rows, self.problem.images),
            chosen=torch.where(inside, part.chosen, -1),
            weight=torch.where(inside, part.weight * images / count, 0.0),
        )

    def iteration(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        """Alg. 1, the body of the loop."""
        s = self.settings
        joint = s.optimisation == "joint"  # one step for both losses, instead of one each
        part = self.contrasted(batch)  # the images of the batch that have a contrastive pass
        views = compute_views(self.source, batch, s.positive == "class", part)
        clean = leaves(views.clean)
        logits = self.class_logits(clean, batch)  # P_B = g(Phi(x; Theta^{t-1}))
        predicted = self.predict(logits, clean, len(part.rows))  # the same, without dropout
        masks = self.e_step(predicted, clean, part, views.clean_flip)  # E-step, Eq. 10
        own_key = self.insert_into_tree(part, clean, predicted, masks, views.clean_flip)  # G <- G u {H(M), s}
        losses = self.class_losses(logits, clean, masks, batch)  # Eq. 12
        if not joint:
            self.update(losses.total, losses.rows, batch, optimiser)  # M-step: L_class, update Y~
        query = self.query(views, masks)  # H~_on = T_on(Aug_o(x), M), Eq. 6
        key = own_key if views.positive is None else self.positive_key(views, part)  # H~+_tar, Eq. 7
        assert key is not None
        contrast = s.lambda_c * self.contrastive_loss(query, key, part)  # L_cont, Eq. 8
        if joint:
            self.update(losses.total + contrast, losses.rows, batch, optimiser)
        else:
            self.second_step(contrast, optimiser)  # M-step: L_cont
        self.target.follow(self.network, self.projector, s.momentum)  # Eq. 13
        return detached({**losses.named, "contrast": contrast})

    def insert_into_tree(
        self, batch: Batch, clean: Features, logits: Tensor, masks: Keep | None, flip: Tensor
    ) -> Tensor | None:
        """Put the target's masked features into the tree and the masks into the bank; returns the features (B, D).

        They are the negative keys of Eq. 7 for later batches. A CPU that needs them for nothing else (class positives)
        computes only those that the tree keeps, and returns None.
        """

        def own_keys(rows: Tensor | slice) -> Tensor:
            some = (clean[0].detach()[rows], clean[1].detach()[rows])
            with autocast(clean[0].device, self.source.precision):
                return self.target.key(some, None if masks is None else (masks[0][rows], masks[1][rows]))

        processes = self.problem.processes
        on_request = processes.count == 1 and clean[0].device.type == "cpu" and self.settings.positive == "class"
        features = None if on_request else own_keys(slice(len(batch.rows)))
        gather = processes.gather
        score = logits.detach().gather(1, batch.chosen.clamp(min=0)[:, None])[:, 0].sigmoid()
        scores = None if self.settings.contrast == "random" else gather(score)  # a plain memory bank keeps the newest
        kept = own_keys if features is None else gather(features)
        self.tree.insert(gather(batch.chosen), scores, gather(batch.rows), kept)
        if masks is not None:
            self.bank.store(gather(batch.rows), (gather(masks[0]), gather(masks[1])), gather(flip))
        return features

    def query(self, views: StepViews, masks: Keep | None) -> Tensor:
        """Eq. 6: the online network's masked features of the strong view, (B, D)."""
        turned = None if masks is None else flip_masks(masks, views.clean_flip ^ views.strong_flip)
        strong = views.strong()
        with autocast(strong[0].device, self.source.precision):
            return self.projector.query(self.network.embed(strong, turned))

    def positive_key(self, views: StepViews, batch: Batch) -> Tensor:
        """Eq. 7: the target's features (B, D) of the class positives, under their last masks.

        This is the recurrence: activations of an earlier iteration guide this one.
        """
        assert views.positive is not None
        masks = self.bank.load(batch.positives, views.positive_flip) if self.guided(batch.epoch) else None
        with autocast(views.positive[0].device, self.source.precision):
            return self.target.key(views.positive, masks)

    def contrastive_loss(self, query: Tensor, key: Tensor, batch: Batch) -> Tensor:
        """Eq. 8 against the t most confident nodes of every other class. An image without a label has no term."""
        s = self.settings
        if s.contrast == "ipt":
            nodes, exist = self.tree.top(s.negatives)
        else:
            salt = seed_key(self.problem.seed, "random negatives")
            lanes = mix_tensor(torch.arange(self.tree.classes, device=query.device), salt) ^ self.tree.inserted
            nodes, exist = self.tree.random(s.negatives, uniform(lanes, salt, self.tree.capacity))
        classes = torch.arange(len(nodes), device=query.device)
        foreign = batch.chosen[:, None, None] != classes[None, :, None]
        allowed = (foreign & exist[None]).flatten(1)
        weight = batch.weight * (batch.chosen >= 0)
        divisor = contrast_divisor(s.cont_scale, allowed, self.tree.classes)
        return l_cont(query, key, nodes.flatten(0, 1), allowed, s.tau, divisor, weight)
