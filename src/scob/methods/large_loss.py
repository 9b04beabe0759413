"""Large loss matters: unknown labels whose loss as negatives is the largest are rejected or made positive.

Youngwook Kim, Jae Myung Kim, Zeynep Akata, Jungwoo Lee: Large Loss Matters in Weakly Supervised Multi-Label
Classification, CVPR 2022. BCE with unknown labels as absent; those with the largest loss are probably missing
positives. In epoch t (from 1), as many unknown labels as (t - 1) * delta percent of all the batch's labels, known or
not (B images x L classes), those with the largest loss, are rejected (LL-R: they cost nothing) or corrected for this
step (LL-Ct: they count as positives); LL-Cp makes delta percent of B x L positive for good in each epoch from the
second on. The number is that of the authors' code, rounded up as there: at delta = 0.2, a batch of 16 images and 20
classes calls for 0.64 labels, and rounding down would leave LL-Cp nothing to do. Ours: LL-Cp makes all of them positive
(theirs: all but the one with the smallest loss of them). The authors choose delta from 0.1, 0.2, 0.3, 0.4 and 0.5;
which value they report for which data set could not be checked.
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
        "how many unknown labels are added each epoch, in percent of all labels; the authors use 0.1 to 0.5",
        None,
        ge=0,
    )


def largest(cost: Tensor, eligible: Tensor, count: Tensor) -> Tensor:
    """The `count` (rounded up) eligible entries with the largest cost: (B, L), (B, L) bool -> bool."""
    ordered = torch.where(eligible, cost, -torch.inf).flatten().sort(descending=True).values
    rank = (count - 1e-4).ceil().long().clamp(min=0, max=ordered.numel() - 1)  # 5 * 0.6 may come out slightly above 3
    return eligible & (cost > ordered[rank])


class LargeLoss(LossMethod):
    """What the three variants share: which entries are suspected to be missing positives."""

    Settings: ClassVar[type[Section]] = LargeLossSettings
    settings: LargeLossSettings

    def suspected(self, logits: Tensor, unknown: Tensor, batch: Batch, rounds: int) -> Tensor:
        """Of this process's `unknown` labels, those with the largest losses: rounds * delta percent of B x L, bool."""
        real = (batch.weight > 0)[:, None]
        count = real.sum() * logits.shape[1] * min(1.0, rounds * self.settings.delta / 100)
        return largest(absent_cost(logits.detach()), unknown & real, count)


class LargeLossRejection(LargeLoss):
    """LL-R: the unknown labels with the largest loss as negatives are ignored."""

    name: ClassVar[str] = "ll-r"
    title: ClassVar[str] = "LL-R"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        entries = torch.where(observed == 1, present_cost(logits), absent_cost(logits))
        trusted = torch.where(self.suspected(logits, observed == 0, batch, batch.epoch), 0.0, entries)
        return {"bce": over_images(trusted, batch.weight)}


class LargeLossTemporary(LargeLoss):
    """LL-Ct: the unknown labels with the largest loss as negatives count as positives in this step."""

    name: ClassVar[str] = "ll-ct"
    title: ClassVar[str] = "LL-Ct"

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        present = (observed == 1) | self.suspected(logits, observed == 0, batch, batch.epoch)
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
            corrected = corrected | self.suspected(logits, (observed == 0) & ~corrected, batch, 1)
            gather = self.problem.processes.gather
            self.corrected[gather(batch.rows)] = gather(corrected)
        present = (observed == 1) | corrected
        entries = torch.where(present, present_cost(logits), absent_cost(logits))
        return {"bce": over_images(entries, batch.weight)}
