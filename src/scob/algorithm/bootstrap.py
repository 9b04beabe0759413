"""Algorithm 1: semantic contrastive bootstrapping with expectation-maximisation, one iteration on one screen.

Where the text leaves a choice, `ScobSettings` names it; docs/paper.md says how each was read.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.cam import activation_maps, masks_of
from scob.algorithm.image_contrast import ImageContrast
from scob.algorithm.ipt import InstancePriorityTree
from scob.algorithm.losses import bce_observed, l_cont
from scob.algorithm.masks import MaskBank, flip_cells
from scob.algorithm.method import Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, ScobSettings, Section
from scob.draws import mix_tensor, seed_key, uniform
from scob.errors import UserError
from scob.methods.role import Role
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.heads import Keep
from scob.model.network import Network, Projector, Target, full


class Bootstrap(Role):
    """Scob: ROLE's L_class (Eq. 12) and an object-level contrastive loss (Eq. 8) under masks from the E-step."""

    name: ClassVar[str] = "scob"
    title: ClassVar[str] = "Scob"
    Settings: ClassVar[type[Section]] = ScobSettings
    settings: ScobSettings
    started: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        s = self.settings
        if s.guidance == "gt-mask" and problem.true_masks is None:
            raise UserError("scob.guidance=gt-mask needs a data set with segmentation masks; this one has none")
        objects = s.contrast in ("ipt", "random")
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))
        self.image_contrast: ImageContrast | None = None
        self.needs_images = s.contrast != "none"
        self.capturable = s.contrast in ("ipt", "random", "none") and problem.rows.kind == "device"
        self.needs_positives = objects and s.positive == "class" and source.cache is None
        if objects:
            self.projector = Projector(network.dimension, config.model.projection, config.model.projector)
            self.target = Target(network, self.projector)
            capacity = max(s.capacity, s.negatives)
            self.tree = InstancePriorityTree(
                len(problem.classes), capacity, self.projector.dimension, problem.images, problem.device
            )
            self.bank = MaskBank(problem.images, problem.grids, problem.device, problem.rows)
        elif s.contrast != "none":
            self.image_contrast = ImageContrast(network, config.model.projection, s.contrast, s.tau, s.momentum)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        mapping: list[nn.Parameter] = []
        if self.settings.contrast in ("ipt", "random"):
            mapping = list(self.projector.parameters())
        elif self.image_contrast is not None:
            mapping = [p for p in self.image_contrast.parameters() if p.requires_grad]
        return {**super().groups(), "mapping": mapping}

    # The phase of an epoch.

    def initial(self, epoch: int) -> bool:
        """Whether the epoch belongs to the initial phase (Theta^0), in which L_class is all there is."""
        return self.settings.optimisation == "em" and epoch < self.settings.init_epochs

    def contrasts(self, epoch: int) -> bool:
        """Whether the epoch has a contrastive step: not in the initial phase."""
        return self.settings.contrast != "none" and not self.initial(epoch)

    def guided(self, epoch: int) -> bool:
        """Whether masks are in use: never without guidance, nor in the first third of `two-stage`."""
        s = self.settings
        return s.guidance != "none" and not (s.optimisation == "two-stage" and epoch < self.problem.epochs / 3)

    def phase(self, epoch: int) -> str:
        return f"initial {self.initial(epoch)}, guided {self.guided(epoch)}"

    def begin_epoch(self, epoch: int) -> None:
        """The bootstrapping starts from Theta^0: its first epoch finds the target equal to the online network."""
        if not self.contrasts(epoch) or self.started.item():
            return
        self.started.fill_(True)
        if self.image_contrast is not None:
            self.image_contrast.target.follow(self.network, self.image_contrast.projector, 0.0)
        else:
            self.target.follow(self.network, self.projector, 0.0)

    # One iteration.

    def step(self, batch: Batch) -> dict[str, Tensor]:
        """Alg. 1, the body of the loop, in its order."""
        s = self.settings
        if self.initial(batch.epoch) or (s.contrast == "none" and not s.mask_classification):
            return super().step(batch)  # Theta^0: L_class alone
        if s.contrast in ("none", "byol", "moco", "simclr"):
            return self._image_level_step(batch)

        flip = self.source.views.flips(batch.keys, "clean")
        clean, strong, strong_flip, other, other_flip = self._look(batch, flip)
        logits = self.logits(clean)  # P_B = g(Phi(x; Theta^{t-1}))
        masks = self.e_step(logits, clean, batch, flip)  # E-step
        node = self._remember(batch, clean, logits, masks, flip)  # G <- G u {H(M), s}
        loss, rows = self.class_loss(logits, batch)
        named = {"class": loss.detach()}
        if s.mask_classification:
            named["masked"] = self._masked_class_loss(clean, masks, batch)
            loss = loss + named["masked"]
        if s.optimisation != "joint":  # M-step: L_class, update Y~
            self.optimiser.step(loss, rows)
            self.move_estimates(batch, rows)
        query_masks = self._turn(masks, flip, strong_flip)
        if strong is None:  # a backbone that learns has just moved
            strong = self.source.of(self._strong_view(batch, strong_flip))[0]
        with autocast(clean[0].device, self.source.precision):
            query = self.projector.query(self.network.embed(strong, query_masks))  # H~_on = T_on(Aug_o(x), M)
            key = node if other is None else self.target.key(other, self._banked(batch, other_flip))  # H~+_tar
        contrast = s.lambda_c * self._against_tree(query, key, batch)  # negatives: top t of the other classes
        if s.optimisation == "joint":
            self.optimiser.step(loss + contrast, rows)
            self.move_estimates(batch, rows)
        else:
            self.optimiser.step(contrast)  # M-step: L_cont
        self.target.follow(self.network, self.projector, s.momentum)  # Eq. 13
        return {name: value.detach() for name, value in {**named, "contrast": contrast}.items()}

    def _strong_view(self, batch: Batch, flip: Tensor) -> Tensor:
        """Aug_o of the batch's images (Eq. 6)."""
        assert batch.images is not None
        return self.source.views.strong(batch.images, flip, batch.keys)

    def _look(self, batch: Batch, flip: Tensor) -> tuple[Features, Features | None, Tensor, Features | None, Tensor]:
        """Features of the clean view, the strong view and, with class positives, the positive's weak view (Eq. 6-7).

        All in one forward, but for the strong view of a backbone that learns: the class step comes before it.
        """
        views, cache, frozen = self.source.views, self.source.cache, self.network.backbone.frozen
        assert batch.images is not None
        strong_flip = views.flips(batch.keys, "strong")
        other_flip = views.flips(batch.keys, "positive")
        wanted = [self._strong_view(batch, strong_flip)] if frozen else []
        by_class = self.settings.positive == "class"
        if cache is None:
            wanted.append(views.weak(batch.images, flip))
            if by_class:
                assert batch.positive_images is not None
                wanted.append(views.weak(batch.positive_images, other_flip))
        weak = self.source.of(*wanted)
        strong = weak.pop(0) if frozen else None
        clean = cache.read(batch.rows, flip) if cache is not None else weak[0]
        other = None
        if by_class:
            other = cache.read(batch.positives, other_flip) if cache is not None else weak[1]
        return self.leaves(clean), strong, strong_flip, other, other_flip

    def e_step(self, logits: Tensor, clean: Features, batch: Batch, flip: Tensor) -> Keep | None:
        """Eq. 10: the foreground of the observed label under Theta^{t-1}, in the clean view's coordinates."""
        s = self.settings
        if not self.guided(batch.epoch):
            return None
        masks = masks_of(activation_maps(logits, clean, batch.chosen, s.cam, s.cam_source), s.cam_window, s.gamma_cam)
        if s.guidance == "gt-mask" and self.problem.true_masks is not None:
            true = self.problem.true_masks.load(batch.rows, flip)
            known = true[0].flatten(1).any(dim=1)[:, None, None]
            masks = (torch.where(known, true[0], masks[0]), torch.where(known, true[1], masks[1]))
        return masks

    def _remember(self, batch: Batch, clean: Features, logits: Tensor, masks: Keep | None, flip: Tensor) -> Tensor:
        """The target's masked features into the tree, the masks into the bank; returns the features (B, D)."""
        detached = (clean[0].detach(), clean[1].detach())
        with autocast(clean[0].device, self.source.precision):
            node = self.target.key(detached, masks)
        gather = self.problem.processes.gather
        score = logits.detach().gather(1, batch.chosen.clamp(min=0)[:, None])[:, 0].sigmoid()
        if self.settings.contrast == "random":  # a plain memory bank: the newest stay
            score = torch.zeros_like(score) + self.tree.inserted
        self.tree.insert(gather(batch.chosen), gather(score), gather(batch.rows), gather(node))
        if masks is not None:
            self.bank.store(gather(batch.rows), (gather(masks[0]), gather(masks[1])), gather(flip))
        return node

    def _turn(self, masks: Keep | None, flip: Tensor, strong_flip: Tensor) -> Keep | None:
        """Masks of the clean view in the strong view's coordinates."""
        if masks is None:
            return None
        turned = flip ^ strong_flip
        return flip_cells(masks[0], turned), flip_cells(masks[1], turned)

    def _banked(self, batch: Batch, flip: Tensor) -> Keep | None:
        """The positives' last masks (recurrence: activations of an earlier iteration guide this one)."""
        return self.bank.load(batch.positives, flip) if self.guided(batch.epoch) else None

    def _against_tree(self, query: Tensor, key: Tensor, batch: Batch) -> Tensor:
        """Eq. 8 against the t most confident nodes of every class but the image's own; no label, no term."""
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
        return l_cont(query, key, nodes.flatten(0, 1), allowed, s.tau, s.cont_scale, weight)

    def _masked_class_loss(self, clean: Features, masks: Keep | None, batch: Batch) -> Tensor:
        """The other reading of Sec. 3.2: the masked feature must show the class it was masked for."""
        with autocast(clean[0].device, self.source.precision):
            logits = full(self.network.classify(clean, masks))
        only = nn.functional.one_hot(batch.chosen.clamp(min=0), logits.shape[1]) * (batch.chosen >= 0)[:, None]
        return bce_observed(logits.sigmoid(), only, batch.weight)

    def _image_level_step(self, batch: Batch) -> dict[str, Tensor]:
        """No contrast, or the rows of Tab. 4 that contrast whole images by cropped views of themselves."""
        clean = self.leaves(self.clean_features(batch))
        logits = self.logits(clean)
        loss, rows = self.class_loss(logits, batch)
        named = {"class": loss}
        if self.settings.mask_classification:
            flip = self.source.views.flips(batch.keys, "clean")
            named["masked"] = self._masked_class_loss(clean, self.e_step(logits, clean, batch, flip), batch)
            loss = loss + named["masked"]
        if self.image_contrast is not None and self.contrasts(batch.epoch):
            assert batch.images is not None
            if self.settings.optimisation != "joint":
                self.optimiser.step(loss, rows)
            first, second = self.source.of(
                self.source.views.crop(batch.images, batch.keys, "first"),
                self.source.views.crop(batch.images, batch.keys, "second"),
            )
            with autocast(clean[0].device, self.source.precision):
                named["contrast"] = self.settings.lambda_c * self.image_contrast(
                    self.network, first, second, batch.weight
                )
            if self.settings.optimisation != "joint":
                self.optimiser.step(named["contrast"])
            else:
                self.optimiser.step(loss + named["contrast"], rows)
            self.image_contrast.follow(self.network, self.problem.processes.gather)
        else:
            self.optimiser.step(loss, rows)
        self.move_estimates(batch, rows)
        return {name: value.detach() for name, value in named.items()}
