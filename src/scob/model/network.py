"""The online network, which predicts; its contrastive projector; and the target network that follows both."""

import copy
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.config import ModelSettings
from scob.errors import UserError
from scob.model.backbone import Backbone, Features
from scob.model.heads import Grids, Head, Keep, build_head
from scob.model.linear import LinearPart


def full(x: Tensor) -> Tensor:
    """Half precision to float32; float64 (train.precision=fp64) stays."""
    return x if x.dtype == torch.float64 else x.float()


class Network(nn.Module):
    """Backbone, head and classifier: what a model folder stores."""

    def __init__(self, backbone: Backbone, head: nn.Module, classes: int, linear: bool = False) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.dimension: int = head.dimension  # type: ignore[assignment]
        self.classes = classes
        # A structured head brings its own classifier, `classifier_for(classes)`, which reads the head's output.
        classifier_for = getattr(head, "classifier_for", None)
        self.classifier: nn.Module = (
            nn.Linear(self.dimension, classes) if classifier_for is None else classifier_for(classes)
        )
        self.linear = LinearPart(backbone.channels[1], classes) if linear else None

    def embed(self, features: Features, keep: Keep | None = None) -> Tensor:
        """Two feature maps, and the cells to keep, to (B, E)."""
        return self.head(features, keep)  # type: ignore[no-any-return]

    def classify(self, features: Features, keep: Keep | None = None) -> Tensor:
        """Logits (B, L) of the kept cells, or of the whole image if no mask is given. Training is the head's alone."""
        logits: Tensor = self.classifier(self.embed(features, keep))
        return logits if self.linear is None or self.training else self.linear(logits, features, keep)

    @torch.no_grad()
    def lower(self, by: float) -> None:
        """Take a number from all logits."""
        assert isinstance(self.classifier, nn.Linear)
        for bias in (self.classifier.bias, *(() if self.linear is None else (self.linear.bias,))):
            bias.sub_(by)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (B, 3, S, S) to logits (B, L)."""
        return self.classify(self.backbone(images))


def build_network(
    backbone: Backbone, settings: ModelSettings, classes: int, size: int, grids: Grids | None = None
) -> Network:
    """A network with new weights on top of `backbone`."""
    if settings.width % (2 * settings.heads):
        raise UserError(
            f"model.width={settings.width} must be a multiple of twice model.heads={settings.heads}: "
            "it is divided among the heads, and between rows and columns"
        )
    head: Head = build_head(backbone.channels, grids or backbone.grids(size), settings)
    return Network(backbone, head, classes, settings.linear)


class Projector(nn.Module):
    """The paper's mapping layer on queries and keys (`map`), or an MLP on queries only (`query-mlp`)."""

    def __init__(self, dimension: int, projection: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind == "map":
            self.layers: nn.Module = nn.Linear(dimension, projection)
        else:
            self.layers = nn.Sequential(
                nn.Linear(dimension, dimension), nn.ReLU(), nn.Linear(dimension, dimension), nn.ReLU(),
                nn.Linear(dimension, dimension),
            )  # fmt: skip
        self.dimension = projection if kind == "map" else dimension

    def query(self, embedding: Tensor) -> Tensor:
        """Online features (B, E) -> unit vectors (B, D)."""
        return F.normalize(full(self.layers(embedding)), dim=1)

    def key(self, embedding: Tensor) -> Tensor:
        """Target features (B, E) -> unit vectors (B, D)."""
        mapped = self.layers(embedding) if self.kind == "map" else embedding
        return F.normalize(full(mapped), dim=1)


class Target(nn.Module):
    """An exponential moving average of head and projector (Eq. 13): an exact copy at the start, never trained."""

    def __init__(self, network: Network, projector: Projector) -> None:
        super().__init__()
        self.head, self.projector = copy.deepcopy(network.head), copy.deepcopy(projector)
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> "Target":
        """Always stay in evaluation mode: keys are computed without dropout."""
        return super().train(False)

    @torch.no_grad()
    def key(self, features: Features, keep: Keep | None) -> Tensor:
        """Unit vectors (B, D) of the kept cells."""
        return self.projector.key(self.head(features, keep))

    def follow(self, network: Network, projector: Projector, momentum: float) -> None:
        """Eq. 13: theta_tar <- alpha theta_tar + (1 - alpha) theta_on."""
        follow(self.head.parameters(), network.head.parameters(), momentum)
        follow(self.projector.parameters(), projector.parameters(), momentum)


@torch.no_grad()
def follow(averages: Iterable[Tensor], values: Iterable[Tensor], momentum: float) -> None:
    """In place: average <- momentum * average + (1 - momentum) * value, all tensors in one call."""
    targets = list(averages)
    if targets:  # a head may have no parameters
        torch._foreach_lerp_(targets, [v.detach() for v in values], 1 - momentum)
