"""Large loss matters: of the labels assumed absent, those that cost most are likely missing positives.

Youngwook Kim, Jae Myung Kim, Zeynep Akata, Jungwoo Lee: Large Loss Matters in Weakly Supervised Multi-Label
Classification, CVPR 2022. BCE with unknown as absent; in epoch t (from 1) the (t - 1) * delta percent of the
batch's unknown labels with the largest loss are rejected (LL-R: they count nothing), corrected for this step (LL-Ct:
they count as positives), or, delta percent each epoch from the second on, made positive for good (LL-Cp). A share of a
batch is rounded up, as the authors' code does: at delta = 0.2 a batch of 16 images and 20 classes owes 0.6 labels, and
rounding down would leave LL-Cp nothing to do. The authors choose delta from 0.1 to 0.5; which one they report for which
data set could not be checked.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.entries import absent_cost, over_images, present_cost
from scob.model.features import FeatureSource
from scob.model.network import Network


class LargeLossSettings(Section):
    """Large-loss rejection and correction."""

    delta: float = setting(
        0.2,
        "percent of the unknown labels by which the share grows each epoch; the authors' range: 0.1 to 0.5",
        None,
        ge=0,
    )


def largest(cost: Tensor, eligible: Tensor, share: float) -> Tensor:
    """The eligible entries whose cost is among the largest `share` (rounded up): (B, L), (B, L) bool -> bool."""
    ordered = torch.where(eligible, cost, -torch.inf).flatten().sort(descending=True).values
    exact = eligible.sum() * min(1.0, share)
    place = (exact - 1e-4).ceil().long().clamp(min=0, max=ordered.numel() - 1)  # 5 * 0.6 may be a little more than 3
    return eligible & (cost > ordered[place])


class LargeLoss(LossMethod):
    """What the three have in common: which entries are suspected."""

    Settings: ClassVar[type[Section]] = LargeLossSettings
    settings: LargeLossSettings

    def suspected(self, logits: Tensor, observed: Tensor, batch: Batch) -> Tensor:
        """Unknown labels with the largest losses of the (local) batch, (B, L) bool."""
        eligible = (observed == 0) & (batch.weight > 0)[:, None]
        return largest(absent_cost(logits.detach()), eligible, batch.epoch * self.settings.delta / 100)


class LargeLossRejection(LargeLoss):
    """LL-R."""

    name: ClassVar[str] = "ll-r"
    title: ClassVar[str] = "LL-R"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        entries = torch.where(observed == 1, present_cost(logits), absent_cost(logits))
        kept = torch.where(self.suspected(logits, observed, batch), 0.0, entries)
        return {"bce": over_images(kept, batch.weight)}


class LargeLossTemporary(LargeLoss):
    """LL-Ct."""

    name: ClassVar[str] = "ll-ct"
    title: ClassVar[str] = "LL-Ct"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        present = (observed == 1) | self.suspected(logits, observed, batch)
        entries = torch.where(present, present_cost(logits), absent_cost(logits))
        return {"bce": over_images(entries, batch.weight)}


class LargeLossPermanent(LargeLoss):
    """LL-Cp."""

    name: ClassVar[str] = "ll-cp"
    title: ClassVar[str] = "LL-Cp"
    corrected: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.register_buffer("corrected", torch.zeros_like(problem.observed, dtype=torch.bool))

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        corrected = self.corrected[batch.rows]
        if batch.epoch > 0:
            eligible = (observed == 0) & ~corrected & (batch.weight > 0)[:, None]
            corrected = corrected | largest(absent_cost(logits.detach()), eligible, self.settings.delta / 100)
            gather = self.problem.processes.gather
            self.corrected[gather(batch.rows)] = gather(corrected)
        present = (observed == 1) | corrected
        entries = torch.where(present, present_cost(logits), absent_cost(logits))
        return {"bce": over_images(entries, batch.weight)}
