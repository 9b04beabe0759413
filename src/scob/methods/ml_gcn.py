"""ML-GCN: a graph network over the class vectors produces the classifiers.

Zhao-Min Chen, Xiu-Shen Wei, Peng Wang, Yanwen Guo: Multi-Label Image Recognition with Graph Convolutional Networks,
CVPR 2019. Two graph convolutions, LeakyReLU(A H W), turn the class vectors into classifiers (L, C), which are
multiplied with the spatial maximum of stage 4. A is P(c' | c) binarised at tau = 0.4; then the neighbours of a class
share p = 0.2 and the class itself keeps 1 - p (against over-smoothing); then both sides are normalised by degree. A
class receives messages from the classes likely to occur with it, as in the formula; in the authors' code, whose matrix
is transposed, from the classes it is likely to occur with. Their 0.25 against 1 for the class itself equals 0.2
against 0.8.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.config import Section, setting
from scob.methods.structure import Semantic, SemanticSettings, class_vectors
from scob.model.backbone import Features
from scob.model.heads import Keep


class MlGcnSettings(SemanticSettings):
    """Graph convolutions over the classes."""

    tau: float = setting(0.4, "conditional probability from which a class is a neighbour", 0.4, ge=0, le=1)
    p: float = setting(0.2, "total weight of a class's neighbours", 0.2, ge=0, lt=1)
    middle: int = setting(1024, "dimension between the two convolutions", 1024, ge=1)
    slope: float = setting(0.2, "slope of the LeakyReLU below 0", 0.2, ge=0)
    propagate: bool = setting(True, "mix each class with its neighbours")


def reweighted(conditional: Tensor, tau: float, p: float) -> Tensor:
    """The normalised correlation matrix of the paper, (L, L)."""
    itself = torch.eye(len(conditional))
    neighbours = (conditional >= tau).float() * (1 - itself)
    shared = p * neighbours / neighbours.sum(dim=1, keepdim=True).clamp(min=1)
    mixed = shared + (1 - p) * itself
    degree = mixed.sum(dim=1).clamp(min=1e-6) ** -0.5
    return degree[:, None] * mixed * degree[None, :]


class MaxHead(nn.Module):
    """The maximum of stage 4 over the visible cells: -> (B, C)."""

    def __init__(self, channels: int, recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None) -> None:
        super().__init__()
        self.recipe, self.dimension = dict(recipe), channels
        self.knowledge = (adjacency, vectors)  # passed on to the classifier, which stores them

    def classifier_for(self, classes: int) -> nn.Module:
        return GraphClassifier(self.dimension, self.recipe, *self.knowledge)

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        cells = features[1].flatten(2)
        if keep is not None:
            visible = keep[1].flatten(1)
            cells = cells.masked_fill(~(visible | ~visible.any(dim=1, keepdim=True))[:, None], -torch.inf)
        return cells.amax(dim=2)


class GraphClassifier(nn.Module):
    """Classifiers that two graph convolutions compute from class vectors: (B, C) -> (B, L)."""

    adjacency: Tensor

    def __init__(self, channels: int, recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.slope = len(adjacency), float(recipe["slope"])
        mixed = reweighted(adjacency, recipe["tau"], recipe["p"]) if recipe["propagate"] else torch.eye(len(adjacency))
        self.register_buffer("adjacency", mixed)
        start, learned = class_vectors(vectors, len(adjacency), int(recipe["vector_size"]))
        self.vectors: Tensor
        if learned:
            self.vectors = nn.Parameter(start)
        else:
            self.register_buffer("vectors", start)
        self.first = nn.Linear(start.shape[1], int(recipe["middle"]), bias=False)
        self.second = nn.Linear(int(recipe["middle"]), channels, bias=False)

    def classifiers(self) -> Tensor:
        """The classifiers, (L, C)."""
        hidden = F.leaky_relu(self.adjacency @ self.first(self.vectors), self.slope)
        return self.adjacency @ self.second(hidden)  # type: ignore[no-any-return]

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled @ self.classifiers().T


class MlGcn(Semantic):
    """Partial BCE with classifiers that a graph network computes from the class vectors."""

    name: ClassVar[str] = "ml-gcn"
    title: ClassVar[str] = "ML-GCN"
    Settings: ClassVar[type[Section]] = MlGcnSettings

    @classmethod
    def make_head(
        cls, channels: tuple[int, int], recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None
    ) -> nn.Module:
        return MaxHead(channels[1], recipe, adjacency, vectors)
