"""KGGR: co-occurrence guides the class features and the classifiers, each through a graph of its own.

Tianshui Chen, Liang Lin, Riquan Chen, Xiaolu Hui, Hefeng Wu: Knowledge-Guided Multi-Label Few-Shot Learning for
General Image Recognition, TPAMI 2022. The class features are those of SSGRL. A second gated graph network over the same
P(c' | c) connects the classifier weights, so that a class with few examples learns from the classes it occurs with; its
output classifies. We found no code by the authors: the paper's values below are those of SSGRL, and how the second
graph is read out is ours.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from scob.config import Section, setting
from scob.methods.structure import GatedGraph, PerClass, Structured, StructuredHead, StructureSettings


class KggrSettings(StructureSettings):
    """Features for every class, and two graphs."""

    classifier_steps: int = setting(
        3, "rounds of propagation between classifiers; 0: none; the paper's value could not be checked", None, ge=0
    )


class GuidedClassifier(PerClass):
    """Classifier weights that exchange messages over the graph: (B, L, D) -> (B, L)."""

    def __init__(self, adjacency: Tensor, dimension: int, steps: int, published: bool = True) -> None:
        super().__init__(len(adjacency), dimension)
        self.graph = GatedGraph(adjacency, dimension, steps, published)

    def forward(self, features: Tensor) -> Tensor:
        return (features * self.graph(self.weight)).sum(dim=-1) + self.bias  # type: ignore[no-any-return]


class GuidedHead(StructuredHead):
    """The structured head, followed by guided classifiers."""

    def classifier_for(self, classes: int) -> nn.Module:
        steps = int(self.recipe["classifier_steps"])
        return GuidedClassifier(self.graph.adjacency, self.dimension, steps, self.published)


class Kggr(Structured):
    """Partial BCE with one co-occurrence graph over the class features and one over the classifiers."""

    name: ClassVar[str] = "kggr"
    title: ClassVar[str] = "KGGR"
    Settings: ClassVar[type[Section]] = KggrSettings

    @classmethod
    def make_head(
        cls, channels: tuple[int, int], recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None
    ) -> nn.Module:
        return GuidedHead(channels[1], recipe, adjacency, vectors)
