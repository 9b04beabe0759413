"""Class-activation guidance: which epochs use masks, and the E-step that finds them (Eq. 10)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.cam import MapSettings, activation_maps, leaves, likeness, masks_of
from scob.algorithm.known_powers import KnownPowers
from scob.algorithm.label_estimation import LabelEstimation
from scob.algorithm.losses import bce_observed
from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.algorithm.step_views import first
from scob.config import Config, ScobSettings, Section
from scob.errors import UserError
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.heads import Keep
from scob.model.network import Network, full


@dataclass(frozen=True)
class ClassLosses:
    """The classification losses of a step: their sum, the estimator's rows, and the losses by name."""

    total: Tensor
    rows: Tensor
    named: dict[str, Tensor]


class GuidedMethod(LabelEstimation):
    """L_class, and masks that say where the observed object is, from the network's own class activations."""

    Settings: ClassVar[type[Section]] = ScobSettings
    settings: ScobSettings

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        cached_on_cpu = source.cache is not None and problem.device.type == "cpu"
        self.powers = KnownPowers(problem.images) if cached_on_cpu else None
        if self.settings.guidance == "gt-mask" and problem.true_masks is None:
            raise UserError("scob.guidance=gt-mask needs a data set with segmentation masks; this one has none")

    def initial(self, epoch: int) -> bool:
        """Whether the epoch belongs to the initial phase (Theta^0), which trains L_class alone."""
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

    def class_logits(self, clean: Features, batch: Batch) -> Tensor:
        """The logits (B, L) of the training pass, which L_class is computed from."""
        return self.logits(clean)

    def contrasted(self, batch: Batch) -> Batch:
        """The images of a step that are masked and contrasted."""
        return batch

    def predict(self, logits: Tensor, clean: Features, count: int) -> Tensor:
        """The predictions (count, L) for the first images, which their masks and tree scores are taken from.

        Of a pass without dropout, unless asked for otherwise. `logits` (B, L) are those of the training pass.
        """
        with_dropout = self.settings.cam_dropout or not self.config.model.dropout
        return logits[:count] if with_dropout else self.without_dropout(first(clean, count))

    def without_dropout(self, clean: Features) -> Tensor:
        """The logits (B, L) of a pass without dropout."""
        head = self.network.head
        head.eval()
        predicted = self.logits(clean)
        head.train()
        return predicted

    def e_step(self, logits: Tensor, clean: Features, batch: Batch, flip: Tensor) -> Keep | None:
        """Eq. 10: the foreground of the observed label under Theta^{t-1}, in the clean view's coordinates."""
        s = self.settings
        if not self.guided(batch.epoch):
            return None
        settings, alike, powers = MapSettings.of(s), None, self.powers
        if settings.source == "spread" and powers is not None:  # a GPU would have to wait to learn what is known
            third = clean[0].detach()[: len(batch.rows)]
            alike = likeness(third, find=lambda cosine: powers.look_up(cosine, batch.rows, flip))
        masks = masks_of(activation_maps(logits, clean, batch.chosen, settings, alike), settings)
        if s.guidance == "gt-mask" and self.problem.true_masks is not None:
            true = self.problem.true_masks.load(batch.rows, flip)
            known = true[0].flatten(1).any(dim=1)[:, None, None]
            masks = (torch.where(known, true[0], masks[0]), torch.where(known, true[1], masks[1]))
        return masks

    def second_step(self, contrast: Tensor, optimiser: Optimiser) -> None:
        """The second step of an iteration, on the contrastive loss: an Adam step of its own, or part of the first."""
        if self.settings.second_step == "separate":
            optimiser.step(contrast)
        else:
            optimiser.extend_step(contrast)

    def masked_class_loss(self, clean: Features, masks: Keep | None, batch: Batch) -> Tensor:
        """The other reading of Sec. 3.2: the masked features must be classified as the class they were masked for."""
        with autocast(clean[0].device, self.source.precision):
            logits = full(self.network.classify(first(clean, len(batch.rows)), masks))
        only = nn.functional.one_hot(batch.chosen.clamp(min=0), logits.shape[1]) * (batch.chosen >= 0)[:, None]
        return bce_observed(logits.sigmoid(), only, batch.weight)

    def class_losses(self, logits: Tensor, clean: Features, masks: Keep | None, batch: Batch) -> ClassLosses:
        """L_class and, with `mask_classification`, the masked class loss."""
        loss, rows = self.class_loss(logits, batch)
        named = {"class": loss}
        if self.settings.mask_classification:
            named["masked"] = self.masked_class_loss(clean, masks, self.contrasted(batch))
            loss = loss + named["masked"]
        return ClassLosses(loss, rows, named)

    def masked_class_step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        """An iteration without contrast: L_class and the masked class loss."""
        flip = self.source.views.flips(batch.keys, "clean")
        clean = leaves(self.clean_features(batch))
        logits = self.class_logits(clean, batch)
        masks = self.e_step(self.predict(logits, clean, len(logits)), clean, batch, flip)
        losses = self.class_losses(logits, clean, masks, batch)
        self.update(losses.total, losses.rows, batch, optimiser)
        return detached(losses.named)


def detached(losses: dict[str, Tensor]) -> dict[str, Tensor]:
    """Named losses without their graphs."""
    return {name: value.detach() for name, value in losses.items()}
