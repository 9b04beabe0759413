"""What a run reports while it trains: small records, passed to a listener as they happen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Calibrating:
    """BatchNorm statistics are being re-estimated on this many training images."""

    images: int


@dataclass(frozen=True)
class CachingFeatures:
    """The backbone's features of a split are being computed and kept."""

    split: str
    images: int


@dataclass(frozen=True)
class ReadTrueMasks:
    """Segmentation was read for `segmented` of `images` training images; the others use class activations."""

    segmented: int
    images: int


@dataclass(frozen=True)
class ContinuedFrom:
    """The run starts from a model: the classes that both know, the new ones, and the ones that were dropped."""

    kept: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointDamaged:
    """A checkpoint could not be read; an older one is used."""

    message: str


@dataclass(frozen=True)
class Note:
    """A sentence for the user."""

    message: str


@dataclass(frozen=True)
class Started:
    """Training begins, at `step` of `steps`."""

    step: int
    steps: int


@dataclass(frozen=True)
class StepLogged:
    """A line of the log: mean losses since the last one."""

    step: int
    steps: int
    losses: Mapping[str, float]
    images_per_second: float


@dataclass(frozen=True)
class EpochMeasured:
    """An epoch was evaluated. `measured` maps mAP, mAP-observed and so on to their values."""

    epoch: int
    epochs: int
    measured: Mapping[str, float | None]
    seconds: float


@dataclass(frozen=True)
class RunsPlanned:
    """A study will need this many runs."""

    runs: int


@dataclass(frozen=True)
class RunBegins:
    """The next run of a study: the name of its folder, and whether it was already finished."""

    name: str
    reused: bool = False


Event = (
    Calibrating
    | CachingFeatures
    | ReadTrueMasks
    | ContinuedFrom
    | CheckpointDamaged
    | Note
    | Started
    | StepLogged
    | EpochMeasured
    | RunsPlanned
    | RunBegins
)
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """A listener that does nothing."""
