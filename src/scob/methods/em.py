"""Entropy maximisation: the predictions of unknown labels are kept undecided instead of pushed towards absent.

Donghao Zhou, Pengfei Chen, Qiong Wang, Guangyong Chen, Pheng-Ann Heng: Acknowledging the Unknown for Multi-label
Learning with Single Positive Labels, ECCV 2022. Present: -log p. Unknown: minus alpha times the entropy
-p log p - (1 - p) log(1 - p), so minimising the loss keeps the prediction near one half unless other images move it.
alpha = 0.2 on VOC (0.1 on COCO and NUS-WIDE, 0.01 on CUB). An observed negative costs -log(1 - p).
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.entries import absent_cost, over_images, present_cost, soft_cost


class EmSettings(Section):
    """Entropy maximisation."""

    alpha: float = setting(0.2, "weight of the entropy of unknown labels", 0.2, ge=0)


def entropy(logits: Tensor) -> Tensor:
    """Binary entropy of each entry, in nats."""
    p = logits.sigmoid()
    return soft_cost(logits, p)


def em_entries(logits: Tensor, observed: Tensor, alpha: float) -> Tensor:
    """The EM loss of each entry."""
    known = torch.where(observed == 1, present_cost(logits), absent_cost(logits))
    return torch.where(observed == 0, -alpha * entropy(logits), known)


class EntropyMaximisation(LossMethod):
    """Cross-entropy for known labels; unknown ones are kept undecided by maximising their entropy."""

    name: ClassVar[str] = "em"
    title: ClassVar[str] = "EM"
    Settings: ClassVar[type[Section]] = EmSettings
    settings: EmSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"entropy": over_images(em_entries(logits, observed, self.settings.alpha), batch.weight)}
