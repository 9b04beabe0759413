"""MIME: pseudo-labels from an encoder with one query per class, chosen to share much information with the images.

Biao Liu, Ning Xu, Jiaqi Lv, Xin Geng: Revisiting Pseudo-Label for Single-Positive Multi-Label Learning (MIME, mutual
label enhancement), ICML 2023. Only its outline could be checked: pseudo-labels come from a label-query encoder, are
guided by mutual information, and the network and the pseudo-labels improve each other. The bound the authors maximise,
their encoder, weights and warm-up could not be checked, so this is our reading of the outline and not a reproduction:
each class's query attends to the cells of stage 4, and its own linear layer turns what it gathers into a pseudo-label
q. The encoder learns -log q of the observed positives, to agree with the network (BCE against p), and to maximise the
mutual information between image and label, the entropy of a class's mean q minus the mean entropy of q. The network
learns from q where nothing is observed. In the first epochs, unknown labels count as absent for both.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.method import Method, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.methods.em import entropy
from scob.methods.entries import over_images, soft_cost
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network, full


class MimeSettings(Section):
    """Mutual label enhancement."""

    warm_up: float = setting(0.25, "share of the epochs in which unknown labels count as absent", None, ge=0, le=1)
    information: float = setting(0.1, "weight of the mutual information between image and pseudo-label", None, ge=0)
    agreement: float = setting(1.0, "weight of the pseudo-labels' agreement with the network", None, ge=0)
    width: int = setting(256, "channels of the label-query encoder", None, ge=8)


class LabelQueries(nn.Module):
    """One query per class attends to the cells of stage 4: -> logits of pseudo-labels (B, L)."""

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(classes, width) * width**-0.5)
        self.keys, self.values = nn.Linear(channels, width), nn.Linear(channels, width)
        self.weight = nn.Parameter(torch.randn(classes, width) * width**-0.5)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, features: Features) -> Tensor:
        cells = features[1].flatten(2).transpose(1, 2)  # (B, n, C)
        keys, values = self.keys(cells), self.values(cells)  # (B, n, D)
        queries = self.queries.to(keys.dtype)
        attention = (queries @ keys.transpose(1, 2) * queries.shape[1] ** -0.5).softmax(dim=2)  # (B, L, n)
        gathered = attention.to(values.dtype) @ values  # (B, L, D)
        logits: Tensor = (gathered * self.weight.to(gathered.dtype)).sum(dim=2) + self.bias.to(gathered.dtype)
        return logits


def binary_entropy(p: Tensor) -> Tensor:
    """Entropy of probabilities, in nats."""
    inside = p.clamp(1e-6, 1 - 1e-6)
    return -inside * inside.log() - (1 - inside) * (1 - inside).log()


class MutualLabelEnhancement(Method):
    """Pseudo-labels from one query per class, informative about the image; our reading of an outline, see its file."""

    name: ClassVar[str] = "mime"
    title: ClassVar[str] = "MIME (our reading)"
    Settings: ClassVar[type[Section]] = MimeSettings
    settings: MimeSettings
    capturable = True

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        self.encoder = LabelQueries(network.backbone.channels[1], len(problem.classes), settings.width)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        groups = super().groups()
        return {**groups, "other": [*groups["other"], *self.encoder.parameters()]}

    def warm(self, epoch: int) -> bool:
        """Whether the epoch belongs to the warm-up."""
        return epoch < self.settings.warm_up * self.problem.epochs

    def phase(self, epoch: int) -> str:
        return f"warm {self.warm(epoch)}"

    def information(self, pseudo_logits: Tensor, batch: Batch) -> Tensor:
        """The mutual information, a mean over the classes; this process's part of it."""
        share = self.share(batch)
        mean = share.total((pseudo_logits.sigmoid() * batch.weight[:, None]).sum(dim=0))
        # As in Eq. 11, every process computes the mean of the whole batch; the gradient reaches its own images.
        return share.counted_once(binary_entropy(mean).mean()) - over_images(entropy(pseudo_logits), batch.weight)

    def losses(self, logits: Tensor, pseudo_logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Named terms: logits and pseudo_logits (B, L) float, observed (B, L) int8."""
        s, known = self.settings, (observed == 1).to(logits.dtype)
        if self.warm(batch.epoch):
            assumed = over_images(soft_cost(logits, known), batch.weight)
            return {"bce": assumed, "encoder": over_images(soft_cost(pseudo_logits, known), batch.weight)}
        q = torch.where(observed == 0, pseudo_logits.sigmoid().detach(), known)
        p = torch.where(observed == 0, logits.sigmoid().detach(), known)
        encoder = (1 + (s.agreement - 1) * (observed == 0)) * soft_cost(pseudo_logits, p)
        return {
            "bce": over_images(soft_cost(logits, q), batch.weight),
            "encoder": over_images(encoder, batch.weight),
            "information": -s.information * self.information(pseudo_logits, batch),
        }

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        features = self.clean_features(batch)
        with autocast(features[0].device, self.source.precision):
            pseudo_logits = full(self.encoder((features[0].detach(), features[1].detach())))
        terms = self.losses(self.logits(features), pseudo_logits, self.observed(batch), batch)
        optimiser.step(torch.stack(list(terms.values())).sum())
        return {name: value.detach() for name, value in terms.items()}
