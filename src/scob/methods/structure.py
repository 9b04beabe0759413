"""The base of the structured methods: a feature for each class of an image, and a graph over the classes.

Both come from Tianshui Chen, Muxin Xu, Xiaolu Hui, Hefeng Wu, Liang Lin: Learning Semantic-Specific Graph
Representation for Multi-Label Image Recognition (SSGRL), ICCV 2019. KGGR, SST and SARB build on them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.labels import ABSENT, Labels
from scob.methods.entries import over_known, soft_cost
from scob.methods.partial_bce import PartialBce, PartialBceSettings
from scob.methods.semantics import co_occurrence, has_pairs, read_vectors
from scob.model.backbone import Features
from scob.model.heads import Grids, Keep


class VectorSettings(Section):
    """What a method that reasons about classes needs to know about them."""

    vectors: str = setting("", "file with a word vector or text embedding per class; empty: learned", "GloVe, 300")
    vector_size: int = setting(300, "dimension of learned class vectors", 300, ge=1)


class SemanticSettings(VectorSettings, PartialBceSettings):
    """The same, for a method trained by partial BCE."""


class StructureSettings(SemanticSettings):
    """A feature for each class, and a graph between the classes."""

    joint: int = setting(0, "dimension of the joint space of cells and classes; 0: twice model.width", 1024, ge=0)
    hidden: int = setting(0, "dimension of a class's feature; 0: twice model.width", 2048, ge=0)
    steps: int = setting(3, "rounds of propagation over the graph; 0: none", 3, ge=0)


class SmallStructureSettings(VectorSettings):
    """The same with the sizes of SST and SARB, whose BCE has no normalisation g."""

    joint: int = setting(0, "dimension of the joint space of cells and classes; 0: twice model.width", 512, ge=0)
    hidden: int = setting(0, "dimension of a class's feature; 0: twice model.width", 1024, ge=0)
    steps: int = setting(3, "rounds of propagation over the graph; 0: none", 3, ge=0)


class GatedCell(nn.GRUCell):
    """The gated update of SSGRL: the reset gate acts on the state before it is mapped (in torch's cell, after it).

    r, z = sigmoid(W a + U h), with weights of their own; h' = tanh(W a + U (r h)); the state becomes (1 - z) h + z h'.
    `published=False` is torch's cell, for models that were trained with it.
    """

    def __init__(self, messages: int, dimension: int, published: bool) -> None:
        super().__init__(messages, dimension)
        self.published = published

    def forward(self, messages: Tensor, state: Tensor | None = None) -> Tensor:
        """Messages a (N, M) and states h (N, D) -> the new states (N, D)."""
        if not self.published or state is None:
            return super().forward(messages, state)
        reset_in, update_in, candidate_in = F.linear(messages, self.weight_ih, self.bias_ih).chunk(3, dim=1)
        reset_map, update_map, candidate_map = zip(self.weight_hh.chunk(3), self.bias_hh.chunk(3), strict=True)
        reset = torch.sigmoid(reset_in + F.linear(state, *reset_map))
        update = torch.sigmoid(update_in + F.linear(state, *update_map))
        candidate = torch.tanh(candidate_in + F.linear(reset * state, *candidate_map))
        return (1 - update) * state + update * candidate


class GatedGraph(nn.Module):
    """The gated graph network of SSGRL: nodes receive messages in both directions of the edges."""

    adjacency: Tensor

    def __init__(self, adjacency: Tensor, dimension: int, steps: int, published: bool = True) -> None:
        super().__init__()
        self.steps = steps
        self.register_buffer("adjacency", adjacency.clone())
        self.cell = GatedCell(2 * dimension, dimension, published)
        self.output = nn.Linear(2 * dimension, dimension)

    def forward(self, nodes: Tensor) -> Tensor:
        """(..., L, D) -> (..., L, D): tanh of a linear map of the nodes after and before the propagation together."""
        state = nodes
        for _ in range(self.steps):
            messages = torch.cat((self.adjacency @ state, self.adjacency.T @ state), dim=-1)
            state = self.cell(messages.flatten(0, -2), state.flatten(0, -2)).view_as(state)
        return torch.tanh(self.output(torch.cat((state, nodes), dim=-1)))


class PerClass(nn.Module):
    """A linear classifier per class, on that class's own feature: (B, L, D) -> (B, L)."""

    def __init__(self, classes: int, dimension: int) -> None:
        super().__init__()
        self.out_features = classes
        self.weight = nn.Parameter(torch.empty(classes, dimension).uniform_(-1, 1) / dimension**0.5)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, features: Tensor) -> Tensor:
        return (features * self.weight).sum(dim=-1) + self.bias


def class_vectors(given: Tensor | None, classes: int, size: int) -> tuple[Tensor, bool]:
    """The given vectors, or new random ones; and whether they are to be learned."""
    return (torch.randn(classes, size) / size**0.5, True) if given is None else (given, False)


class StructuredHead(nn.Module):
    """Semantic decoupling (attention per class) and semantic interaction (the graph): -> (B, L, D)."""

    def __init__(self, channels: int, recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None) -> None:
        super().__init__()
        self.recipe = dict(recipe)
        joint, self.dimension = int(recipe["joint"]), int(recipe["hidden"])
        start, learned = class_vectors(vectors, len(adjacency), int(recipe["vector_size"]))
        self.vectors: Tensor
        if learned:
            self.vectors = nn.Parameter(start)
        else:
            self.register_buffer("vectors", start)
        self.of_cell = nn.Linear(channels, joint, bias=False)
        self.of_class = nn.Linear(start.shape[1], joint, bias=False)
        self.attention = nn.Linear(joint, 1)  # the paper's two linear maps after the tanh, as one
        self.reduce = nn.Linear(channels, self.dimension)  # ours: SSGRL keeps all channels, SST and SARB reduce the map
        self.published = bool(recipe.get("published", False))  # models of earlier versions do not say
        self.graph = GatedGraph(adjacency, self.dimension, int(recipe["steps"]), self.published)

    def classifier_for(self, classes: int) -> nn.Module:
        return PerClass(classes, self.dimension)

    def represent(self, features: Features, keep: Keep | None = None) -> Tensor:
        """Each class's own mean of the cells, weighted by attention: -> (B, L, D)."""
        cells = features[1].flatten(2).transpose(1, 2)  # (B, N, C)
        combined = torch.tanh(self.of_cell(cells)[:, None] * self.of_class(self.vectors)[None, :, None])  # (B, L, N, J)
        scores = self.attention(combined)[..., 0]
        if keep is not None:
            visible = keep[1].flatten(1)
            scores = scores.masked_fill(~(visible | ~visible.any(dim=1, keepdim=True))[:, None], -torch.inf)
        attended = scores.softmax(dim=2).to(cells.dtype) @ cells  # (B, L, C)
        reduced: Tensor = self.reduce(attended)
        return reduced if self.published else torch.tanh(reduced)

    def relate(self, nodes: Tensor) -> Tensor:
        """Propagation between the classes: (B, L, D) -> (B, L, D)."""
        return self.graph(nodes)  # type: ignore[no-any-return]

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        return self.relate(self.represent(features, keep))


class Semantic(PartialBce):
    """A method whose own head uses class vectors and co-occurrence."""

    Settings: ClassVar[type[Section]] = SemanticSettings

    @classmethod
    def make_head(
        cls, channels: tuple[int, int], recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None
    ) -> nn.Module:
        """The head, from its recipe and what is known about the classes."""
        raise TypeError(f"the method {cls.__name__} does not define a head")

    @classmethod
    def build_head(cls, channels: tuple[int, int], grids: Grids, config: Config, observed: Labels) -> nn.Module:
        from scob import methods

        recipe = methods.settings_of(config, cls.name).model_dump(mode="json")
        vectors = read_vectors(Path(recipe["vectors"]), observed.classes) if recipe["vectors"] else None
        recipe |= {key: recipe[key] or 2 * config.model.width for key in ("joint", "hidden") if key in recipe}
        recipe |= {"classes": len(observed.classes), "published": True}
        if vectors is not None:
            recipe["vector_size"] = vectors.shape[1]
        return cls.make_head(channels, recipe, co_occurrence(observed), vectors)

    @classmethod
    def rebuild_head(cls, channels: tuple[int, int], grids: Grids, recipe: Mapping[str, Any]) -> nn.Module:
        count, size = int(recipe["classes"]), int(recipe["vector_size"])
        return cls.make_head(channels, recipe, torch.zeros(count, count), torch.zeros(count, size))

    def remarks(self) -> tuple[str, ...]:
        remark = f"{self.title}: co-occurrence is counted from the observed labels"
        if not self.settings.vectors:
            remark += f"; no {self.name}.vectors file was given, so class vectors are learned"
        observed = self.problem.observed.cpu().numpy()
        if (observed == ABSENT).any():
            return (remark,)
        if has_pairs(observed):
            return (f"{remark}; no label is observed absent, so in these counts an unknown label is absent",)
        return (f"{remark}; no image has two observed labels, so class frequencies replace co-occurrence",)


class Structured(Semantic):
    """A method that uses the structured head."""

    Settings: ClassVar[type[Section]] = StructureSettings

    @classmethod
    def make_head(
        cls, channels: tuple[int, int], recipe: Mapping[str, Any], adjacency: Tensor, vectors: Tensor | None
    ) -> nn.Module:
        return StructuredHead(channels[1], recipe, adjacency, vectors)

    @property
    def head(self) -> StructuredHead:
        assert isinstance(self.network.head, StructuredHead)
        return self.network.head


class SmallStructured(Structured):
    """What SST and SARB share: the BCE is a mean over the known labels of the whole batch, as in the authors' code.

    With few known labels this weighs more than partial BCE, and the other terms less: at one label of 20, 4 times; at
    one of 80, 15 times.
    """

    Settings: ClassVar[type[Section]] = SmallStructureSettings

    def bce(self, logits: Tensor, labels: Tensor, batch: Batch, soft: Tensor | None = None) -> Tensor:
        """The BCE against labels (B, L) in {-1, 0, 1}; `soft` (B, L) in [0, 1] replaces the values of known labels."""
        target = (labels == 1).float() if soft is None else soft
        return over_known(soft_cost(logits, target), (labels != 0) & (batch.weight > 0)[:, None], self.share(batch))

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"bce": self.bce(logits, observed, batch)}
