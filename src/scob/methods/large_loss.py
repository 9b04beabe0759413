"""Large loss matters: unknown labels whose loss as negatives is the largest are rejected or made positive.

Youngwook Kim, Jae Myung Kim, Zeynep Akata, Jungwoo Lee: Large Loss Matters in Weakly Supervised Multi-Label
Classification, CVPR 2022. BCE with unknown labels as absent; those with the largest loss are probably missing
positives. In epoch t (from 1), the (t - 1) * delta percent of the batch's unknown labels with the largest loss are
rejected (LL-R: they cost nothing) or corrected for this step (LL-Ct: they count as positives); LL-Cp makes delta
percent positive for good in each epoch from the second on. The number of labels in a batch is rounded up, as in the
authors' code: at delta = 0.2, a batch of 16 images and 20 classes calls for 0.6 labels, and rounding down would leave
LL-Cp nothing to do. The authors choose delta from 0.1 to 0.5; which value they report for which data set could not be
checked.
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
        "percent of the unknown labels that are added each epoch; the authors use 0.1 to 0.5",
        None,
        ge=0,
    )


def largest(cost: Tensor, eligible: Tensor, share: float) -> Tensor:
    """The eligible entries whose cost is among the largest `share` (rounded up): (B, L), (B, L) bool -> bool."""
    ordered = torch.where(eligible, cost, -torch.inf).flatten().sort(descending=True).values
    exact = eligible.sum() * min(1.0, share)
    rank = (exact - 1e-4).ceil().long().clamp(min=0, max=ordered.numel() - 1)  # 5 * 0.6 may come out slightly above 3
    return eligible & (cost > ordered[rank])


class LargeLoss(LossMethod):
    """What the three variants share: which entries are suspected to be missing positives."""

    Settings: ClassVar[type[Section]] = LargeLossSettings
    settings: LargeLossSettings

    def suspected(self, logits: Tensor, observed: Tensor, batch: Batch) -> Tensor:
        """The unknown labels with the largest losses in this process's batch, (B, L) bool."""
        eligible = (observed == 0) & (batch.weight > 0)[:, None]
        return largest(absent_cost(logits.detach()), eligible, batch.epoch * self.settings.delta / 100)


class LargeLossRejection(LargeLoss):
    """LL-R: the unknown labels with the largest loss as negatives are ignored."""

    name: ClassVar[str] = "ll-r"
    title: ClassVar[str] = "LL-R"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        entries = torch.where(observed == 1, present_cost(logits), absent_cost(logits))
        trusted = torch.where(self.suspected(logits, observed, batch), 0.0, entries)
        return {"bce": over_images(trusted, batch.weight)}


class LargeLossTemporary(LargeLoss):
    """LL-Ct: the unknown labels with the largest loss as negatives count as positives in this step."""

    name: ClassVar[str] = "ll-ct"
    title: ClassVar[str] = "LL-Ct"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        present = (observed == 1) | self.suspected(logits, observed, batch)
        entries = torch.where(present, present_cost(logits), absent_cost(logits))
        return {"bce": over_images(entries, batch.weight)}


class LargeLossPermanent(LargeLoss):
    """LL-Cp: the unknown labels with the largest loss as negatives become positives for good."""

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
