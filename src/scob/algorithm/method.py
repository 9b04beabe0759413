"""What a method is: a loss (or a whole step), a head, its settings. One small file each in this folder.

A new method subclasses `LossMethod`, names itself, and is found by its file: nothing else is to be registered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from scob.algorithm.masks import MaskBank
from scob.algorithm.sampling import Batch as Batch  # methods import it from here
from scob.config import Config, Section
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.heads import ConvHead, Grids, SmtHead
from scob.model.network import Network, full
from scob.model.row_tables import RowPlace
from scob.parallel import Processes
from scob.training.optimise import Optimiser


@dataclass(frozen=True)
class Problem:
    """What a method may know. The true labels are not among it.

    `observed` (N + 1, L) int8 and `keys` (N + 1,) int64 have a last row for padding.
    """

    classes: tuple[str, ...]
    observed: Tensor
    keys: Tensor
    k: float
    grids: Grids
    seed: int
    epochs: int
    steps_per_epoch: int
    processes: Processes = field(default_factory=Processes)
    true_masks: MaskBank | None = None
    rows: RowPlace = field(default_factory=RowPlace)

    @property
    def images(self) -> int:
        return len(self.observed) - 1

    @property
    def device(self) -> torch.device:
        return self.observed.device


class Method(nn.Module):
    """One way to learn. Its buffers and parameters are what a checkpoint holds."""

    name: ClassVar[str]
    title: ClassVar[str]
    Settings: ClassVar[type[Section]] = Section
    labels: ClassVar[Literal["observed", "full"]] = "observed"
    needs_images: bool = False
    needs_positives: bool = False
    capturable: bool = False  # the step makes no host decision within a phase: it may run as a CUDA graph
    optimiser: Optimiser

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__()
        self.network, self.problem, self.source = network, problem, source
        self.config, self.settings = config, settings

    @classmethod
    def adjust(cls, config: Config) -> Config:
        """A method may change settings that others share (its head, say) before anything is built."""
        return config

    @classmethod
    def build_head(
        cls, channels: tuple[int, int], grids: Grids, config: Config, problem_hint: Mapping[str, Any]
    ) -> nn.Module | None:
        """A head of the method's own in place of `model.head`; None for the common ones."""
        return None

    @classmethod
    def rebuild_head(cls, channels: tuple[int, int], grids: Grids, recipe: Mapping[str, Any]) -> nn.Module:
        """The method's own head from the `recipe` (plain JSON) it carries as an attribute, for a model folder."""
        raise TypeError(f"the method {cls.__name__} brings no head of its own")

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Parameters by the name of their learning rate."""
        head, classifier = list(self.network.head.parameters()), list(self.network.classifier.parameters())
        smt, cnn = isinstance(self.network.head, SmtHead), isinstance(self.network.head, ConvHead)
        return {
            "smt": head if smt else [],
            "cnn": [*classifier, *head] if cnn else [],
            "other": [] if cnn else [*classifier, *([] if smt else head)],
            "backbone": list(self.network.backbone.parameters()),
        }

    def clean_features(self, batch: Batch) -> Features:
        """Features of the weak view (squash-resize and flip), kept ones where there are any."""
        flip = self.source.views.flips(batch.keys, "clean")
        if self.source.cache is not None:
            return self.source.cache.read(batch.rows, flip)
        assert batch.images is not None
        return self.source.of(self.source.views.weak(batch.images, flip))[0]

    def logits(self, features: Features) -> Tensor:
        """The network's answer in full precision, (B, L)."""
        with autocast(features[0].device, self.source.precision):
            return full(self.network.classify(features))

    def observed(self, batch: Batch) -> Tensor:
        """The observed labels of the batch's images, (B, L) int8."""
        return self.problem.observed[batch.rows]

    @property
    def wants_images(self) -> bool:
        """Whether a step looks at pixels: always, unless kept features are enough."""
        return self.needs_images or self.source.cache is None

    def phase(self, epoch: int) -> str:
        """Names what a step does in this epoch: steps of one name are the same operations on other data."""
        return "step"

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch (and again when a run resumes inside one: derive, do not count)."""

    def step(self, batch: Batch) -> dict[str, Tensor]:
        """One iteration; returns the named losses, detached."""
        raise TypeError(f"the method {type(self).__name__} defines no step")

    def remarks(self) -> tuple[str, ...]:
        """What a person should know of how the method was set up, one sentence each."""
        return ()

    def estimates(self) -> Tensor | None:
        """The method's own estimate of all training labels, (N, L) in [0, 1]; None where it keeps none."""
        return None


class LossMethod(Method):
    """A method that is only a loss on the logits of the clean view."""

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Named terms that are summed: logits (B, L) float, observed (B, L) int8. Weight images by `batch.weight`."""
        raise TypeError(f"the method {type(self).__name__} defines no losses")

    def step(self, batch: Batch) -> dict[str, Tensor]:
        terms = self.losses(self.logits(self.clean_features(batch)), self.observed(batch), batch)
        self.optimiser.step(torch.stack(list(terms.values())).sum())
        return {name: value.detach() for name, value in terms.items()}
