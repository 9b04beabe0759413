"""The labels that images are missing, ranked, each with its evidence: score, estimate, mask, nearest instances."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scob.data.find_images import find_images
from scob.data.split import Split
from scob.errors import UserError
from scob.inference.explain import Box, box_of, enlarge, rle, without_specks
from scob.inference.predict import Progress, Scob
from scob.inference.thresholds import score_split
from scob.labels import PRESENT, UNKNOWN, Labels
from scob.recovery.evidence import Evidence
from scob.training.find_model import find_model
from scob.training.finished_run import FinishedRun, RunImages

Floats = NDArray[np.float32]
MASK_SIDE = 128  # masks are stored at most this large; they are blobs, not outlines


@dataclass(frozen=True)
class Suggestion:
    """A label that an image may be missing."""

    image: str
    row: int
    label: str
    score: float
    estimate: float | None
    confidence: float
    mask: dict[str, Any] | None
    box: Box | None
    nearest: tuple[tuple[str, float], ...]
    observed: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """A line of suggestions.jsonl."""
        return {
            "image": self.image,
            "class": self.label,
            "confidence": round(self.confidence, 6),
            "score": round(self.score, 6),
            "estimate": None if self.estimate is None else round(self.estimate, 6),
            "mask": self.mask,
            "box": None if self.box is None else [round(side, 5) for side in self.box],
            "nearest": [{"image": image, "score": round(score, 5)} for image, score in self.nearest],
            "observed": list(self.observed),
        }


@dataclass(frozen=True)
class Recovered:
    """What `scob recover` found and where it was written."""

    folder: Path
    suggestions: tuple[Suggestion, ...]
    images: int
    unknown: int
    skipped: int = 0
    written: tuple[Path, ...] = ()


def confidence_of(scores: Floats, estimates: Floats | None) -> Floats:
    """What the ranking goes by: the mean of score and estimate; the score where there is no estimate."""
    if estimates is None:
        return scores
    return np.asarray(np.where(np.isnan(estimates), scores, (scores + estimates) / 2), dtype=np.float32)


def rank(
    confidence: Floats, observed: NDArray[np.int8], limits: Floats | float, top: int | None = None
) -> list[tuple[int, int]]:
    """(row, class) of every unknown entry that reaches its limit, the surest first."""
    rows, classes = np.nonzero((observed == UNKNOWN) & (confidence >= limits))
    order = np.lexsort((classes, rows, -confidence[rows, classes]))[:top]
    return [(int(rows[i]), int(classes[i])) for i in order]


def suggest(
    scob: Scob,
    split: Split,
    observed: Labels,
    scores: Floats,
    estimates: Floats | None = None,
    known: RunImages | None = None,
    known_scores: Floats | None = None,
    minimum: float | None = None,
    top: int | None = None,
    masks: bool = True,
    batch: int = 16,
    progress: Progress | None = None,
) -> list[Suggestion]:
    """Ranked suggestions for the unknown entries of `observed`.

    `minimum` replaces the model's own thresholds. `known` (with its scores) gives the confirmed instances.
    """
    confidence = confidence_of(scores, estimates)
    pairs = rank(confidence, observed.values, scob.thresholds if minimum is None else minimum, top)
    evidence = Evidence(scob, batch)
    if masks and known is not None and known_scores is not None:
        evidence.confirm(known, known_scores, {c for _, c in pairs})
    said = [tuple(observed.classes[c] for c in np.flatnonzero(line == PRESENT)) for line in observed.values]
    found: dict[int, Suggestion] = {}
    shapes: dict[int, tuple[int, ...]] = {}
    # Pairs of one image together, so that it is decoded and passed through the backbone once.
    order = sorted(range(len(pairs)), key=lambda n: pairs[n])
    for start in range(0, len(order), 4 * batch):
        numbers = order[start : start + 4 * batch]
        group = [pairs[n] for n in numbers]
        heats, vectors = evidence.look(split.images, group) if masks else (None, None)
        for place, (n, (row, c)) in enumerate(zip(numbers, group, strict=True)):
            image = observed.images[row]
            mask, box = None, None
            near: tuple[tuple[str, float], ...] = ()
            if heats is not None and vectors is not None:
                if row not in shapes:
                    shapes = {row: split.images.load(row).shape[:2]}  # pairs of one image stand together
                shape = shapes[row]
                ratio = min(1.0, MASK_SIDE / max(shape))
                sides = max(1, round(shape[0] * ratio)), max(1, round(shape[1] * ratio))
                inside = enlarge(heats[place].numpy(), *sides) >= 0.5
                clean = without_specks(heats[place].numpy(), 0.5)
                box = box_of(enlarge(clean, *sides) >= 0.5)
                mask = rle(inside) if box is not None else None
                near = evidence.nearest(c, vectors[place], image)
            estimate = None if estimates is None or np.isnan(estimates[row, c]) else float(estimates[row, c])
            found[n] = Suggestion(
                image, row, observed.classes[c], float(scores[row, c]), estimate, float(confidence[row, c]),
                mask, box, near, said[row],
            )  # fmt: skip
        if progress is not None:
            progress(min(start + len(numbers), len(order)), len(order))
    return [found[n] for n in range(len(pairs))]


def recover(
    model: str | Path,
    images: Sequence[str | Path] = (),
    out: Path | None = None,
    formats: Iterable[str] = (),
    minimum: float | None = None,
    top: int | None = None,
    masks: bool = True,
    batch: int = 16,
    device: str = "auto",
    progress: Progress | None = None,
) -> Recovered:
    """`scob recover`: suggest missing labels of a run's own images, or labels of `images` it has never seen.

    Writes suggestions.jsonl and images.json (for `scob review`) and every format asked for into `out`
    (RUN/recovered).
    """
    from scob.recovery.exchange import check_formats, write_formats, write_queue

    wanted = check_formats(formats)
    if minimum is not None and not 0 <= minimum <= 1:
        raise UserError(f"--min must lie between 0 and 1, not {minimum}")
    place = Path(model)
    is_run = (place / "config.yaml").is_file()
    if not images and not is_run:
        find_model(place)
        raise UserError(f"{place} is a model without a run: name the images to suggest labels for with --images FOLDER")
    scob = Scob.from_pretrained(place, device)
    known = FinishedRun.open(place).images if is_run else None
    own_scores = score_split(scob, known.split, batch, progress) if known is not None else None
    skipped = 0
    if images:
        found = find_images(images)
        skipped = found.skipped
        split, skipped_bad = unlabelled(found.paths, scob.classes)
        skipped += skipped_bad
        observed, estimates = split.labels, None
        scores = score_split(scob, split, batch, progress)
        folder = out or place / "recovered-images"
    else:
        assert known is not None and own_scores is not None
        split, observed, scores, estimates = known.split, known.observed, own_scores, known.estimates
        skipped = len(split.skipped)
        folder = out or place / "recovered"
    made = suggest(scob, split, observed, scores, estimates, known, own_scores, minimum, top, masks, batch, progress)
    confirmed = known.split if known is not None else None
    written = write_queue(folder, made, split, confirmed)
    written += write_formats(folder, wanted, made, split, observed, scores, scob.classes)
    unknown = int((observed.values == UNKNOWN).sum())
    return Recovered(folder, tuple(made), len(split), unknown, skipped, tuple(written))


def unlabelled(paths: Sequence[str], classes: tuple[str, ...]) -> tuple[Split, int]:
    """Images nothing is known of, the broken ones left out, and how many those were."""
    from scob.data.check import broken_images
    from scob.data.images import ImageFiles, cause

    every = Split("images", Labels(classes, tuple(paths), np.zeros((len(paths), len(classes)), np.int8)),
                  ImageFiles(tuple(paths)))  # fmt: skip
    broken = broken_images(every)
    if len(broken) == len(paths):
        many = "the image cannot be read" if len(paths) == 1 else f"none of the {len(paths)} images can be read"
        raise UserError(f"{many}: {cause(broken[0])}")
    rows = [row for row in range(len(paths)) if row not in broken]
    return every.select(rows), len(broken)


def read_suggestions(folder: Path) -> list[dict[str, Any]]:
    """The lines of suggestions.jsonl as they were written."""
    return [json.loads(line) for line in (folder / "suggestions.jsonl").read_text().splitlines() if line]
