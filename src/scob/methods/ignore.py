"""IGNORE: an unknown label that depends on the image outside the observed object is not assumed to be absent.

Gyeong Ryeol Song, Noo-ri Kim, Jin-Seop Lee, Jee-Hyong Lee: IGNORE: Information Gap-based False Negative Loss Rejection
for Single Positive Multi-Label Learning, ECCV 2024. The image is masked to the class activation map of the observed
label and classified again; gap = |z - z masked| says how much a class depends on the rest of the image. G is a running
mean of the observed label's gap, A of each class's logit (both with decay 0.999). After a warm-up, an unknown class
with a gap above G and a logit above A is left out of the loss that assumes unknown labels to be absent. Added to it:
0.1 times the BCE of the observed positive in the masked image, and 0.5 times the mean squared difference between the
logits of the strong and of the weak view. Ours: cells are masked, not pixels, by the mask that guides Scob by default.
We had a summary, not the paper: the length of the warm-up (one epoch here) and how the running means begin (here, with
the first batch's values) could not be checked.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.cam import MapSettings, activation_maps, leaves, masks_of
from scob.algorithm.method import Method, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.algorithm.step_views import compute_views
from scob.config import Config, Section, setting
from scob.methods.entries import absent_cost, over_images, present_cost
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network, full


class IgnoreSettings(Section):
    """Labels to ignore."""

    warm_up: int = setting(1, "epochs in which every unknown label counts as absent", None, ge=0)
    decay: float = setting(0.999, "decay of the running means of gaps and logits", 0.999, ge=0, lt=1)
    masked: float = setting(0.1, "weight of the observed positive's loss in the masked image", 0.1, ge=0)
    consistency: float = setting(0.5, "weight of the difference between strong and weak view", 0.5, ge=0)


def ignored(logits: Tensor, gaps: Tensor, usual_gap: Tensor, usual_logits: Tensor, observed: Tensor) -> Tensor:
    """The unknown entries to leave out: (B, L), (B, L), (), (L,), (B, L) -> (B, L) bool."""
    return (observed == 0) & (gaps > usual_gap) & (logits > usual_logits)


class Ignore(Method):
    """Assumed negatives, without those that depend on the image outside the observed object's activation map."""

    name: ClassVar[str] = "ignore"
    title: ClassVar[str] = "IGNORE"
    Settings: ClassVar[type[Section]] = IgnoreSettings
    settings: IgnoreSettings
    capturable = True
    needs_images = True
    usual_gap: Tensor
    usual_logits: Tensor
    started: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.register_buffer("usual_gap", torch.zeros(()))
        self.register_buffer("usual_logits", torch.zeros(len(problem.classes)))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def phase(self, epoch: int) -> str:
        return f"ignores {epoch >= self.settings.warm_up}"

    @torch.no_grad()
    def remember(self, logits: Tensor, gaps: Tensor, batch: Batch) -> None:
        """Move the running means: the gap of the observed label, the logit of every class, over all processes."""
        share, named = self.share(batch), (batch.chosen >= 0).to(logits.dtype) * batch.weight
        own = gaps.gather(1, batch.chosen.clamp(min=0)[:, None])[:, 0]
        labelled = share.total(named.sum())
        gap = share.total((own * named).sum()) / labelled.clamp(min=1e-12)
        mean = share.total((logits * batch.weight[:, None]).sum(dim=0))
        for usual, new in ((self.usual_gap, gap), (self.usual_logits, mean)):
            moved = torch.lerp(usual, new.to(usual.dtype), 1 - self.settings.decay)
            usual.copy_(torch.where(self.started, moved, new.to(usual.dtype)))
        self.started.logical_or_(labelled > 0)

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        s, observed, maps = self.settings, self.observed(batch), MapSettings()
        views = compute_views(self.source, batch, class_positives=False)
        clean = leaves(views.clean)
        logits = self.logits(clean)
        masks = masks_of(activation_maps(logits, clean, batch.chosen, maps), maps)
        with autocast(clean[0].device, self.source.precision):
            masked = full(self.network.classify(clean, masks))
        gaps = (logits - masked).detach().abs()
        self.remember(logits.detach(), gaps, batch)
        cost = torch.where(observed == 1, present_cost(logits), absent_cost(logits))
        if batch.epoch >= s.warm_up:
            left_out = ignored(logits.detach(), gaps, self.usual_gap, self.usual_logits, observed)
            cost = torch.where(left_out, 0.0, cost)
        shown = batch.chosen[:, None] == torch.arange(logits.shape[1], device=logits.device)
        strong = self.logits(views.strong())
        terms = {
            "bce": over_images(cost, batch.weight),
            "masked": s.masked * over_images(shown * present_cost(masked), batch.weight),
            "consistency": s.consistency * over_images((strong - logits).square(), batch.weight),
        }
        optimiser.step(torch.stack(list(terms.values())).sum())
        return {name: value.detach() for name, value in terms.items()}
