"""AEVLP: the generalised robust loss, pseudo-positives by a vision-language model, and an expected number of positives.

Luong Tran, Thieu Vo, Anh Nguyen, Sang Dinh, Van Nguyen: More Reliable Pseudo-labels, Better Performance: A Generalized
Approach to Single Positive Multi-label Learning, ICCV 2025. `labels.prior` has the scores of a vision-language model,
the best of the whole image and of its 4 x 4 tiles; one of at least 0.5 is a pseudo-positive. Unknown labels have the
weights of GR (see gr.py), and an expected-positive term (see epr.py) is added: 0.05 times on VOC, 0.001 on COCO and
NUS-WIDE, 0.01 on CUB. On COCO, NUS-WIDE and CUB, GR's w goes from 0 to 10 and b from -2 to -8. Ours: a pseudo-positive
costs GR's present part, v(p) * l_q2(p). How the authors weight it, and their other values, could not be checked.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.losses import expected_positive_loss, expected_positives
from scob.algorithm.method import Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.entries import over_images
from scob.methods.gr import GrSettings, robust_entries, schedule
from scob.methods.prior import WithPrior
from scob.model.features import FeatureSource
from scob.model.network import Network


class AevlpSettings(GrSettings):
    """Generalised robust loss with vision-language pseudo-positives."""

    limit: float = setting(0.5, "score from which a class is a pseudo-positive", 0.5)
    expected: float = setting(0.05, "weight of the expected number of positives", 0.05, ge=0)


class AdaptivePseudoLabels(WithPrior):
    """GR and EPR, with pseudo-positives by a vision-language model's scores, which a prior file has (labels.prior)."""

    name: ClassVar[str] = "aevlp"
    title: ClassVar[str] = "AEVLP"
    Settings: ClassVar[type[Section]] = AevlpSettings
    settings: AevlpSettings
    capturable = True
    schedule: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.register_buffer("schedule", torch.zeros(4))  # w, b, mu and sigma of the epoch

    def believed(self, prior: Tensor) -> Tensor:
        return prior >= self.settings.limit

    def begin_epoch(self, epoch: int) -> None:
        """GR's schedule."""
        values = schedule(self.settings, epoch, self.problem.epochs)
        self.schedule.copy_(torch.tensor(values, dtype=torch.float64))

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        p, share = logits.sigmoid(), self.share(batch)
        pseudo = self.pseudo_positive[batch.rows]
        entries = robust_entries(logits, observed, self.settings, self.schedule.unbind(), pseudo)
        constraint = expected_positive_loss(expected_positives(p, share), self.problem.k, p.shape[1])
        return {
            "robust": over_images(entries, batch.weight),
            "expected": self.settings.expected * share.counted_once(constraint),
        }
