"""What a run reports while it trains: small records, passed to a listener as they happen."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import TypeVar


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
class Working:
    """A part of the work, by its name, is `done` of `total`."""

    what: str
    done: int
    total: int
    unit: str = "images"


@dataclass(frozen=True)
class StopRequested:
    """The user asked the run to stop; it finishes its step and saves first."""


@dataclass(frozen=True)
class Started:
    """Training begins, at `step` of `steps`."""

    step: int
    steps: int


@dataclass(frozen=True)
class StepTaken:
    """One more step: `step` of `steps`. `settled`: the last steps of the run will do the same as this one."""

    step: int
    steps: int
    settled: bool = True


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


@dataclass(frozen=True)
class RunEnds:
    """A run of a study is over, and so is what was measured on it."""


Event = (
    Calibrating
    | CachingFeatures
    | ReadTrueMasks
    | ContinuedFrom
    | CheckpointDamaged
    | Note
    | Working
    | StopRequested
    | Started
    | StepTaken
    | StepLogged
    | EpochMeasured
    | RunsPlanned
    | RunBegins
    | RunEnds
)
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """A listener that does nothing."""


Batch = TypeVar("Batch", bound=Sized)


def progress_of(what: str, listen: Listener) -> Callable[[int, int], None]:
    """A `progress(done, total)` function for the layers below, which know no events."""
    return lambda done, total: listen(Working(what, done, total))


def counter(what: str, total: int, listen: Listener) -> Callable[[int], None]:
    """A function that counts images for a listener, up to `total`."""
    done = 0
    listen(Working(what, 0, total))

    def count(images: int) -> None:
        nonlocal done
        done = min(total, done + images)
        listen(Working(what, done, total))

    return count


def reported(batches: Iterable[Batch], what: str, total: int, listen: Listener) -> Iterator[Batch]:
    """The batches as they are, while the images in them are counted for a listener."""
    count = counter(what, total, listen)
    for batch in batches:
        yield batch
        count(len(batch))
