"""VLPL: labels that a vision-language model is sure of become pseudo-positives; the others are kept undecided (EM).

Xin Xing, Zhexiao Xiong, Abby Stylianou, Srikumar Sastry, Liyu Gong, Nathan Jacobs: Vision-Language Pseudo-Labels for
Single-Positive Multi-Label Learning, CVPR workshops 2024 (arXiv 2023). `labels.prior` has the cosine between each
image's and each class name's vector, by CLIP or another such model. A class whose softmax(cosine / 0.01) over the
classes is above 0.3 is a pseudo-positive and costs beta * (0.9 * -log p + 0.1 * -log(1 - p)); all other labels cost
what they cost under EM. The authors' beta and alpha could not be checked: beta is 1 here, alpha that of EM on VOC.
"""

from typing import ClassVar

import torch
from torch import Tensor

from scob.algorithm.sampling import Batch
from scob.config import Section, setting
from scob.methods.em import EmSettings, em_entries
from scob.methods.entries import over_images, soft_cost
from scob.methods.prior import WithPrior


class VlplSettings(EmSettings):
    """Vision-language pseudo-labels."""

    temperature: float = setting(
        0.01, "what scores are divided by before the softmax over the classes; 0: they are probabilities", 0.01, ge=0
    )
    limit: float = setting(0.3, "probability above which a class is a pseudo-positive", 0.3, ge=0, le=1)
    beta: float = setting(1.0, "weight of pseudo-positives", None, ge=0)
    smooth: float = setting(0.9, "label of a pseudo-positive", 0.9, ge=0, le=1)


def likely(prior: Tensor, temperature: float, limit: float) -> Tensor:
    """The entries whose probability is above the limit: scores (N, L) -> bool."""
    return ((prior / temperature).softmax(dim=1) if temperature else prior) > limit


class VisionLanguagePseudoLabels(WithPrior):
    """EM, and pseudo-positives by a vision-language model's scores, which a prior file has (labels.prior)."""

    name: ClassVar[str] = "vlpl"
    title: ClassVar[str] = "VLPL"
    Settings: ClassVar[type[Section]] = VlplSettings
    settings: VlplSettings
    capturable = True

    def believed(self, prior: Tensor) -> Tensor:
        return likely(prior, self.settings.temperature, self.settings.limit)

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        s, pseudo = self.settings, self.pseudo_positive[batch.rows]
        soft = s.beta * soft_cost(logits, s.smooth)
        return {
            "entropy": over_images(torch.where(pseudo, 0.0, em_entries(logits, observed, s.alpha)), batch.weight),
            "pseudo": over_images(torch.where(pseudo, soft, 0.0), batch.weight),
        }
