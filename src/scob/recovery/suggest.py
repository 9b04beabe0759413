"""Missing labels, ranked by calibrated probability, each with its evidence: mask, box, nearest instances."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scob.data.find_images import find_images
from scob.data.progress import Progress, part
from scob.errors import UserError
from scob.inference.model import InferenceOptions, Scob
from scob.inference.regions import Box, rle
from scob.inference.scoring import Floats, score_split
from scob.inference.thresholds import FEW
from scob.labels import PRESENT, UNKNOWN
from scob.recovery.calibration import Calibrated, calibrate
from scob.recovery.evidence import ConfirmedInstances, Pairs, foregrounds
from scob.recovery.exchange import check_formats, write_formats
from scob.recovery.images import ScoredImages, files_to_show, unlabelled
from scob.recovery.measured import MeasuredRecovery, measure, true_labels, unseen_truth, write_measured
from scob.recovery.suggestion import RECOVERED, RECOVERED_IMAGES, Suggestion, write_queue
from scob.training.estimates import ranked_by
from scob.training.find_model import find_model
from scob.training.finished_run import FinishedRun

UNCHOSEN = 0.5  # the threshold of every class until `scob thresholds` has chosen them
MASK_SIDE = 128  # pixels of a stored mask's longer side, at most: masks are coarse anyway


@dataclass(frozen=True)
class SuggestionLimits:
    """Which suggestions to make: those with at least `minimum` probability, and only the `top` best of them.

    `minimum` None takes `thresholds`, one per class, or else the model's own: of the score, not of the probability.
    """

    minimum: float | None = None
    top: int | None = None
    thresholds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.minimum is not None and not 0 <= self.minimum <= 1:
            raise UserError(f"--min must be between 0 and 1, not {self.minimum}")


@dataclass(frozen=True)
class Recovered:
    """The suggestions, the folder they were written to, and how many images and unknown entries were scored."""

    folder: Path
    suggestions: tuple[Suggestion, ...]
    images: int
    unknown: int
    skipped: int = 0
    written: tuple[Path, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # the file of each image
    measured: MeasuredRecovery | None = None  # where the data set knows the labels that the run did not see
    held_out: int = 0  # images that the model was not trained on: they say how far its scores can be trusted


def rank(
    probability: Floats, observed: NDArray[np.int8], limits: Floats | float, top: int | None = None
) -> list[tuple[int, int]]:
    """(row, class) of every unknown entry that reaches its limit, the most confident first.

    `top` of them are taken from all classes in turn, so that a frequent class does not leave out the others.
    """
    rows, classes = np.nonzero((observed == UNKNOWN) & (probability >= limits))
    order = np.lexsort((classes, rows, -probability[rows, classes]))
    if top is not None and top < len(order):
        turns = np.empty(len(order), np.int64)  # 0 for the best of each class, 1 for its second best, ...
        for c in np.unique(classes):
            members = classes[order] == c
            turns[members] = np.arange(members.sum())
        order = order[np.sort(np.lexsort((np.arange(len(order)), turns))[:top])]
    return [(int(rows[i]), int(classes[i])) for i in order]


def class_limits(scores: Floats, observed: NDArray[np.int8]) -> tuple[float, ...]:
    """Until thresholds are chosen, a limit per class: 0.5, or the median score of its known images if that is lower.

    So classes with low scores get suggestions too; a class with few known images keeps 0.5.
    """
    limits = []
    for c in range(scores.shape[1]):
        own = scores[observed[:, c] == PRESENT, c]
        limits.append(min(UNCHOSEN, float(np.median(own))) if len(own) >= FEW else UNCHOSEN)
    return tuple(limits)


def limits_of(scob: Scob, selection: SuggestionLimits) -> Floats:
    """The threshold of each class, (L,)."""
    given = selection.thresholds
    return np.asarray(scob.thresholds if given is None else given, np.float32)


def suggest(
    scob: Scob,
    images: ScoredImages,
    known: ScoredImages | None = None,
    selection: SuggestionLimits = SuggestionLimits(),
    masks: bool = True,
    batch: int = 16,
    progress: Progress | None = None,
) -> list[Suggestion]:
    """Ranked suggestions for the unknown entries of `images`; `known` images provide the confirmed instances."""
    observed, estimates = images.observed, images.estimates
    probability = images.probability
    if selection.minimum is None:
        reached = images.scores >= limits_of(scob, selection)
    else:
        reached = probability >= selection.minimum
    pairs = rank(np.where(reached, probability, -1.0).astype(np.float32), observed.values, 0.0, selection.top)
    confirmed = None
    if masks and known is not None:
        comparing = part(progress, "collecting confirmed examples")
        confirmed = ConfirmedInstances.gather(scob, known, {c for _, c in pairs}, batch, comparing)
    labels = [tuple(observed.classes[c] for c in np.flatnonzero(line == PRESENT)) for line in observed.values]
    suggestions: dict[int, Suggestion] = {}
    progress = part(progress, "finding where each label is")
    done = 0
    for numbers in _by_image(pairs, 4 * batch):
        group = [pairs[n] for n in numbers]
        regions = _regions(scob, images, group, batch) if masks else iter(())
        for n, (row, c) in zip(numbers, group, strict=True):
            image = observed.images[row]
            mask, boxes, vector = next(regions, (None, None, None))
            near = confirmed.nearest(c, vector, image) if confirmed is not None and vector is not None else ()
            estimate = None if estimates is None or np.isnan(estimates[row, c]) else float(estimates[row, c])
            score = float(images.scores[row, c])
            suggestions[n] = Suggestion(
                image, observed.classes[c], score, float(probability[row, c]), estimate, mask, boxes, near, labels[row]
            )
        done += len(numbers)
        if progress is not None:
            progress(done, len(pairs))
    return [suggestions[n] for n in range(len(pairs))]


def _by_image(pairs: Pairs, least: int) -> Iterator[list[int]]:
    """The numbers of all pairs in groups of at least `least`, but for the last; an image's pairs are in one group.

    So it is decoded and passed through the backbone once, and its classes compete with each other.
    """
    group: list[int] = []
    for n in sorted(range(len(pairs)), key=lambda n: pairs[n]):
        if len(group) >= least and pairs[n][0] != pairs[group[-1]][0]:
            yield group
            group = []
        group.append(n)
    if group:
        yield group


def _regions(
    scob: Scob, images: ScoredImages, pairs: Pairs, batch: int
) -> Iterator[tuple[dict[str, Any] | None, tuple[Box, ...], Tensor]]:
    """Mask, boxes and feature (E,) of each pair's foreground; pairs of one image follow each other."""
    places, vectors = foregrounds(scob, images.split.images, images.scores, pairs, batch)
    loaded, shape = -1, (1, 1)
    for (row, _), place, vector in zip(pairs, places, vectors, strict=True):
        if place is None:
            yield None, (), vector
            continue
        if row != loaded:
            height, width = images.split.images.load(row).shape[:2]
            loaded, shape = row, (height, width)
        ratio = min(1.0, MASK_SIDE / max(shape))
        sides = max(1, round(shape[0] * ratio)), max(1, round(shape[1] * ratio))
        mask = place.mask(*sides)
        yield (rle(mask), place.boxes, vector) if mask.any() else (None, (), vector)


def recover(
    model: str | Path,
    images: Sequence[str | Path] = (),
    out: Path | None = None,
    formats: Iterable[str] = (),
    selection: SuggestionLimits = SuggestionLimits(),
    masks: bool = True,
    running: InferenceOptions = InferenceOptions(),
) -> Recovered:
    """`scob recover`: suggest missing labels of a run's own images, or labels of new `images`.

    Writes suggestions.jsonl and images.json for `scob review`, and every format asked for, to `out` (by default
    RUN/recovered).
    """
    wanted = check_formats(formats)
    path, batch, progress = Path(model), running.batch, running.progress
    is_run = (path / "config.yaml").is_file()
    if not images and not is_run:
        find_model(path)
        raise UserError(f"{path} is a model without a run: name the images to suggest labels for with --images FOLDER")
    scob = Scob.from_pretrained(path, running.device)
    run = FinishedRun.open(path) if is_run else None
    known = None
    if run is not None:
        own = run.images
        scores = score_split(scob, own.split, batch, part(progress, "scoring the run's images"))
        scores = ranked_by(scob.network, scores, own.estimates, own.observed.values)
        known = ScoredImages(own.split, own.observed, scores, own.estimates, ~own.held_out, calibrate(scores, own))
    if images:
        files = find_images(images)
        split, broken = unlabelled(files.paths, scob.classes)
        skipped = files.skipped + broken
        calibrated = Calibrated() if known is None else known.calibrated
        scores = score_split(scob, split, batch, part(progress, "scoring your images"))
        scored = ScoredImages(split, split.labels, scores, calibrated=calibrated)
        folder = out or path / RECOVERED_IMAGES
    else:
        assert known is not None
        scored, skipped, folder = known, len(known.split.skipped), out or path / RECOVERED
    if known is not None and selection.thresholds is None and set(scob.card.thresholds) == {UNCHOSEN}:
        selection = replace(selection, thresholds=class_limits(known.scores, known.observed.values))
    suggestions = suggest(scob, scored, known, selection, masks, batch, progress)
    shown = dict.fromkeys(s.image for s in suggestions)
    near = dict.fromkeys(image for s in suggestions for image, _ in s.nearest if image not in shown)
    image_files = files_to_show(folder, shown, scored.split)
    if known is not None:
        image_files |= files_to_show(folder, near, known.split)
    written = write_queue(folder, suggestions, image_files, scob.classes)
    written += write_formats(folder, wanted, suggestions, scored, image_files)
    measured = None
    if run is not None and not images:
        measured, files_of_it = measure_run(run, scored, limits_of(scob, selection), folder)
        written += files_of_it
    unknown = int((scored.observed.values == UNKNOWN).sum())
    return Recovered(
        folder, tuple(suggestions), len(scored.split), unknown, skipped, tuple(written), image_files, measured,
        0 if run is None else int(run.images.held_out.sum()),
    )  # fmt: skip


def measure_run(
    run: FinishedRun, scored: ScoredImages, thresholds: Floats | Sequence[float], folder: Path
) -> tuple[MeasuredRecovery | None, list[Path]]:
    """Measure a run's recovered labels if the data set knows the labels it did not see; the files that were written."""
    observed, truth = scored.observed.values, true_labels(run)
    scores, probability = scored.scores, scored.probability
    measured = measure(scores, probability, observed, truth, [float(t) for t in thresholds])
    if measured is None:
        return None, []
    return measured, write_measured(folder, measured, scores, probability, unseen_truth(observed, truth))
