"""ROLE (Cole et al., CVPR 2021) with the likelihood of the chosen label in its first epochs: a method of this package.

An annotator who gives an image one label chooses one of the classes that it shows. If class c is shown with
probability p_c, each independently of the others, and every class that is shown is equally likely to be chosen, then

    P(c chosen) = p_c · E[1 / (1 + N)] = p_c · ∫ over t from 0 to 1 of ∏ over j ≠ c of (1 - p_j + p_j t),

where N counts the other classes that are shown (the integrand is E[t^N]). -log P(c chosen) / L asks for a high p_c, and
for low ones of the others only as far as they compete with it: an unobserved class is never called absent, and the
pull on it is bounded. `weight` times this is added to ROLE's loss (Eq. 12) while an image has been seen fewer than
`epochs` times. ROLE learns slowly at first, because its estimates begin at random; with this term the network that the
estimates then follow is a better one. Later the term would teach the network by heart which label was chosen.
docs/oracles.md has what it reaches.
"""

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from scob.algorithm.label_estimation import LabelEstimation
from scob.algorithm.method import Optimiser
from scob.algorithm.sampling import Batch
from scob.config import Section, setting

NODES = 16  # of the integral: exact for up to 32 classes, and for more as long as few of them are likely


class ChoiceSettings(Section):
    """ROLE with the likelihood of the chosen label."""

    weight: float = setting(3.0, "weight of the likelihood of the chosen label", None, ge=0)
    epochs: int = setting(4, "epochs with this likelihood; those that follow are ROLE's", None, ge=0)


def quadrature(device: torch.device) -> tuple[Tensor, Tensor]:
    """The logarithms of the nodes t in (0, 1) of a Gauss-Legendre quadrature and of their weights, (Q,) each."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    log_nodes, log_weights = torch.tensor(np.log([(nodes + 1) / 2, weights / 2]), dtype=torch.float32, device=device)
    return log_nodes, log_weights


def log_chosen(logits: Tensor, log_nodes: Tensor, log_weights: Tensor) -> Tensor:
    """log P(c chosen) of every class: logits (B, L) -> (B, L)."""
    # log(1 - p + p t) = log(1 + t e^x) - log(1 + e^x)
    factors = F.softplus(logits[..., None] + log_nodes) - F.softplus(logits)[..., None]
    others = factors.sum(dim=1, keepdim=True) - factors
    return F.logsigmoid(logits) + torch.logsumexp(others + log_weights, dim=-1)


class Choice(LabelEstimation):
    """ROLE that at first also asks how likely the chosen label was, given everything that the image may show."""

    name: ClassVar[str] = "choice"
    title: ClassVar[str] = "ROLE + choice"
    Settings: ClassVar[type[Section]] = ChoiceSettings
    settings: ChoiceSettings

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.nodes = quadrature(self.problem.device)

    def chooses(self, epoch: int) -> bool:
        """Whether the likelihood counts in this epoch."""
        return epoch < self.settings.epochs

    def phase(self, epoch: int) -> str:
        return "choice" if self.chooses(epoch) else "step"

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        if not self.chooses(batch.epoch):
            return self.class_step(batch, optimiser)
        logits = self.logits(self.clean_features(batch))
        loss, rows = self.class_loss(logits, batch)
        choice = self.settings.weight * self.choice_loss(logits, batch)
        self.update(loss + choice, rows, batch, optimiser)
        return {"class": loss.detach(), "choice": choice.detach()}

    def choice_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """-log P(c chosen) / L, as a mean over the observed positives of an image; images without one add nothing."""
        positive = (self.observed(batch) == 1).to(logits.dtype)
        costs = -(positive * log_chosen(logits, *self.nodes)).sum(dim=1)
        per_image = costs / positive.sum(dim=1).clamp(min=1)
        return self.share(batch).mean(per_image) / logits.shape[1]
