"""Expected positive regularisation: fit the observed labels, and keep the number of predicted positives near k.

Elijah Cole, Oisin Mac Aodha, Titouan Lorieul, Pietro Perona, Dan Morris, Nebojsa Jojic: Multi-Label Learning from
Single Positive Labels, CVPR 2021. BCE over observed labels (divided by L) plus lambda * ((k-hat - k) / L)^2, where
k-hat is the mean number of predicted positives per image in the batch and k the expected number (`labels.k`).
"""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.losses import bce_observed, expected_positive_loss, expected_positives
from scob.algorithm.method import LossMethod
from scob.algorithm.sampling import Batch
from scob.config import Section, setting


class EprSettings(Section):
    """Expected positive regularisation."""

    strength: float = setting(1.0, "lambda, the weight of the regulariser", 1.0, ge=0)


class ExpectedPositives(LossMethod):
    """BCE on the observed labels, and a constraint that keeps the number of predicted positives near k."""

    name: ClassVar[str] = "epr"
    title: ClassVar[str] = "EPR"
    Settings: ClassVar[type[Section]] = EprSettings
    settings: EprSettings
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        p, share = logits.sigmoid(), self.share(batch)
        # As in Eq. 11, every process computes the constraint of the whole batch; the gradient reaches its own images.
        constraint = expected_positive_loss(expected_positives(p, share), self.problem.k, p.shape[1])
        return {
            "observed": bce_observed(p, observed, batch.weight),
            "expected": self.settings.strength * share.counted_once(constraint),
        }
