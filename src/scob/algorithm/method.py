"""What a method is: a loss (or a whole step), perhaps a head, and settings. Each method is one small file.

A new method subclasses `LossMethod` and names itself. `scob.methods` discovers it by its file; there is no other
registration.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from scob.algorithm.batch_share import BatchShare
from scob.algorithm.masks import MaskBank
from scob.algorithm.sampling import Batch
from scob.config import Config, Section
from scob.labels import Labels
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast
from scob.model.heads import ConvHead, Grids, SmtHead
from scob.model.network import Network, full
from scob.model.row_tables import RowStorage
from scob.parallel import Processes


@dataclass(frozen=True)
class Problem:
    """What a method may know. The true labels are not part of it, except for an oracle.

    `observed` (N + 1, L) int8 and `keys` (N + 1,) int64 end with a row for padding. So do `truth` (int8), which only an
    oracle (`labels = "oracle"`) gets, and `prior` (float), the scores of `labels.prior` for methods that use them.
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
    rows: RowStorage = field(default_factory=RowStorage)
    truth: Tensor | None = None
    prior: Tensor | None = None

    @property
    def images(self) -> int:
        return len(self.observed) - 1

    @property
    def device(self) -> torch.device:
        return self.observed.device


class Optimiser(Protocol):
    """What moves the weights. An iteration may call it several times, once per loss."""

    @property
    def estimator_rate(self) -> Tensor | float:
        """The learning rate of label estimates in this step."""
        ...

    def step(self, loss: Tensor, *leaves: Tensor) -> None:
        """Differentiate `loss` with respect to the parameters and `leaves`, then move the parameters."""
        ...

    def extend_step(self, loss: Tensor) -> None:
        """Add another loss of the same iteration to the step that was just taken: together, one step along the sum."""
        ...


class Method(nn.Module):
    """One way to learn. A checkpoint holds its buffers and parameters."""

    name: ClassVar[str]
    title: ClassVar[str]
    Settings: ClassVar[type[Section]] = Section
    labels: ClassVar[Literal["observed", "full", "oracle"]] = "observed"
    needs_prior: ClassVar[bool] = False  # the scores of another model, from the file labels.prior
    needs_images: bool = False
    needs_positives: bool = False
    capturable: bool = False  # within a phase the step has no host-side branches, so it can run as a CUDA graph

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__()
        self.network, self.problem, self.source = network, problem, source
        self.config, self.settings = config, settings

    @classmethod
    def adjust(cls, config: Config) -> Config:
        """Change settings that all methods share (such as the head) before anything is built."""
        return config

    @classmethod
    def build_head(cls, channels: tuple[int, int], grids: Grids, config: Config, observed: Labels) -> nn.Module | None:
        """The method's own head in place of `model.head`; None to use the common one."""
        return None

    @classmethod
    def rebuild_head(cls, channels: tuple[int, int], grids: Grids, recipe: Mapping[str, Any]) -> nn.Module:
        """The method's own head from the `recipe` (plain JSON) that the head carries and a model folder stores."""
        raise TypeError(f"the method {cls.__name__} has no head of its own")

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

    def rates(self) -> dict[str, float]:
        """What the method multiplies the learning rates of its groups by; a group that is not named keeps its own."""
        return {}

    def clean_features(self, batch: Batch) -> Features:
        """Features of the weak view (squash-resize and flip)."""
        return self.source.clean(batch.rows, batch.images, self.source.views.flips(batch.keys, "clean"))

    def logits(self, features: Features) -> Tensor:
        """The network's logits in full precision, (B, L)."""
        with autocast(features[0].device, self.source.precision):
            return full(self.network.classify(features))

    def observed(self, batch: Batch) -> Tensor:
        """The observed labels of the batch's images, (B, L) int8."""
        return self.problem.observed[batch.rows]

    def share(self, batch: Batch) -> BatchShare:
        """How much each image of the batch counts, over all processes."""
        return BatchShare(batch.weight, self.problem.processes)

    @property
    def wants_images(self) -> bool:
        """Whether a step needs pixels: always, unless cached features are enough."""
        return self.needs_images or self.source.cache is None

    def phase(self, epoch: int) -> str:
        """A name for what steps do in this epoch: all steps of a phase run the same operations, on different data."""
        return "step"

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch, and again when a run resumes in mid-epoch: recompute state, never increment it."""

    def head_replaced(self) -> None:
        """Called after the weights of a model were loaded into the network's head: update every copy of it."""

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        """One iteration; returns the named losses, detached."""
        raise TypeError(f"the method {type(self).__name__} does not define a step")

    def end_epoch(self, epoch: int, scores: Callable[[], Tensor]) -> None:
        """Called after each epoch, and again if the run is interrupted meanwhile: set state, never increment it.

        `scores()` computes the averaged network's predictions for the training images: (N, L) on the CPU. With several
        processes, all must call it, or none.
        """

    def ranking(self, logits: Tensor, epoch: int) -> Tensor:
        """The logits of the final estimates of the training images' labels, if the network has a linear part: (N, L).

        `logits` (N, L) are those of the network of the chosen `epoch`, with leave-one-out predictions of its linear
        part. Unknown labels are ranked by the estimates. Without a linear part, `estimates` are the final ones.
        """
        return logits

    def finish(self, scores: Callable[[], Tensor]) -> float:
        """Called once after training, when the network has the weights of the chosen epoch, before it is stored.

        `scores()` computes its predictions for held-out images, or, if they are few, for the training images: (N, L) on
        the CPU. With several processes, all call it. Returns by how much it has lowered all logits (`Network.lower`).
        """
        return 0.0

    @classmethod
    def finishes(cls) -> bool:
        """Whether `finish` does anything."""
        return cls.finish is not Method.finish

    def remarks(self) -> tuple[str, ...]:
        """What the user should know about how the method was set up, one sentence each."""
        return ()

    def estimates(self) -> Tensor | None:
        """The method's own estimate of all training labels, (N, L) in [0, 1]; None if it keeps none."""
        return None


class LossMethod(Method):
    """A method that is only a loss on the logits of the clean view."""

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Named terms to be summed: logits (B, L) float, observed (B, L) int8. Weight images by `batch.weight`."""
        raise TypeError(f"the method {type(self).__name__} does not define losses")

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        terms = self.losses(self.logits(self.clean_features(batch)), self.observed(batch), batch)
        optimiser.step(torch.stack(list(terms.values())).sum())
        return {name: value.detach() for name, value in terms.items()}
