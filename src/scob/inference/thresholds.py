"""One threshold per class, chosen from the known positives and the label estimator. No full labels are needed.

At a threshold t, recall R(t) is the share of a class's known positives that reach it, P(t) is the share of all images
that do, and the prevalence pi comes from the estimator (from the scores if there is none). The threshold with the
highest expected F1 = 2 R pi / (P + pi) is taken. The F1 that is reported is cross-validated: each part of the images is
measured at the threshold that the others choose.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.progress import Progress, part
from scob.errors import UserError
from scob.files import remove_dead_parts, write_atomically
from scob.inference.model import Scob
from scob.inference.plots import calibration_curves, save_figure
from scob.inference.scoring import Floats, score_split
from scob.labels import ABSENT, PRESENT, UNKNOWN
from scob.training.finished_run import FinishedRun, RunImages
from scob.training.metrics import Calibration, calibration
from scob.training.model_folder import ModelCard, describe

FEW = 5  # a class with fewer known positives takes the threshold of all classes together
HELD = 8  # with at least this many held-out positives, recall is measured on those alone
BINS = 10
FOLDS = 5


@dataclass(frozen=True)
class ChosenThresholds:
    """The thresholds of a run and the numbers they were chosen by, one per class."""

    classes: tuple[str, ...]
    thresholds: tuple[float, ...]
    positives: tuple[int, ...]
    expected_f1: tuple[float, ...]
    prevalence: tuple[float, ...]
    pooled: tuple[bool, ...]
    figures: tuple[Path, ...] = ()


def expected_labels(scores: Floats, known: RunImages) -> Floats:
    """(N, L) in [0, 1]: known entries as they are, the others from the estimator, or from the scores if there is none.

    Unknown entries are scaled down if they would give an image more than the k positives that the run assumed: an
    estimator that has learnt little still gives values near one half.
    """
    values = known.observed.values
    believed = scores
    if known.estimates is not None:
        believed = np.where(np.isnan(known.estimates), scores, known.estimates)
    believed = np.where(values == UNKNOWN, believed, 0.0)
    certain = float((values == PRESENT).sum(axis=1).mean())
    expected_unknown = max(0.05 * known.k, known.k - certain)
    believed = believed * min(1.0, expected_unknown / max(1e-6, float(believed.sum(axis=1).mean())))
    return np.asarray(np.where(values == PRESENT, 1.0, believed), dtype=np.float32)


def best_threshold(positive: Floats, everything: Floats, prevalence: float) -> tuple[float, float]:
    """The threshold with the highest expected F1, and that F1: positive (P,) and everything (N,) are scores."""
    candidates = np.unique(positive)
    recall = 1 - np.searchsorted(np.sort(positive), candidates, side="left") / len(positive)
    share = 1 - np.searchsorted(np.sort(everything), candidates, side="left") / len(everything)
    f1 = 2 * recall * prevalence / np.maximum(1e-12, share + prevalence)
    best = int(f1.argmax())
    # Half-way to the next lower score: the same decisions here, but not exactly at one image's score.
    below = everything[everything < candidates[best]]
    lower = float(below.max()) if len(below) else 0.0
    return (float(candidates[best]) + lower) / 2, float(min(1.0, f1[best]))


def cross_validated_f1(
    scores: Floats, positives: NDArray[np.bool_], prevalence: float, draw: NDArray[np.int64]
) -> float:
    """The expected F1 of thresholds chosen without the images they are measured on; scores and positives are (N,).

    The images are dealt into `FOLDS` parts by `draw`; each part is measured at the threshold of the others.
    """
    part = np.empty(len(scores), np.int64)
    for members in (positives, ~positives):
        rows = np.flatnonzero(members)
        part[rows[np.argsort(draw[rows], kind="stable")]] = np.arange(len(rows)) % FOLDS
    recalled = named = 0
    for fold in range(FOLDS):
        inside = part == fold
        limit, _ = best_threshold(scores[positives & ~inside], scores[~inside], prevalence)
        recalled += int((scores[positives & inside] >= limit).sum())
        named += int((scores[inside] >= limit).sum())
    recall, share = recalled / int(positives.sum()), named / len(scores)
    return float(min(1.0, 2 * recall * prevalence / max(1e-12, share + prevalence)))


def choose_thresholds(scores: Floats, known: RunImages) -> ChosenThresholds:
    """One threshold per class from scores (N, L)."""
    values = known.observed.values
    present = values == PRESENT
    if not present.any():
        raise UserError("no positive label is known: thresholds are chosen from known positives")
    prevalence = expected_labels(scores, known).mean(axis=0)
    pooled, _ = best_threshold(scores[present], scores.ravel(), float(prevalence.mean()))
    limits, expected, shared = [], [], []
    for c in range(scores.shape[1]):
        positives = present[:, c]
        if positives.sum() < FEW:
            limits.append(pooled)
            expected.append(float("nan"))
            shared.append(True)
            continue
        held = positives & known.held_out
        # Scores of training images are too high: a class with enough held-out positives uses only those.
        measured = held if held.sum() >= HELD else positives
        limit, _ = best_threshold(scores[measured, c], scores[:, c], float(prevalence[c]))
        limits.append(limit)
        rows = known.held_out if measured is held else np.ones(len(scores), dtype=bool)
        f1 = cross_validated_f1(scores[rows, c], measured[rows], float(prevalence[c]), known.observed.keys[rows])
        expected.append(f1)
        shared.append(False)
    clipped = np.clip(limits, 0.01, 0.99)
    return ChosenThresholds(
        known.observed.classes,
        tuple(round(float(t), 4) for t in clipped),
        tuple(int(n) for n in present.sum(axis=0)),
        tuple(expected),
        tuple(float(p) for p in prevalence),
        tuple(shared),
    )


def soft_calibration(scores: Floats, expected: Floats, bins: int = BINS) -> Calibration:
    """Calibration against expected labels in [0, 1] instead of certain ones."""
    s, e = scores.ravel().astype(np.float64), expected.ravel().astype(np.float64)
    bin_of = np.minimum((s * bins).astype(np.int64), bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    share = np.maximum(1, counts)
    return Calibration(
        np.bincount(bin_of, s, bins) / share, np.bincount(bin_of, e, bins) / share, counts.astype(np.int64)
    )


def calibration_figures(folder: Path, scores: Floats, known: RunImages) -> tuple[Path, ...]:
    """Draw how well the scores are calibrated, against the expected labels and against the known ones."""
    curves = {"by the estimator" if known.estimates is not None else "by k": soft_calibration(
        scores, expected_labels(scores, known))}  # fmt: skip
    certain = known.observed.values
    if (certain == PRESENT).any() and (certain == ABSENT).any():
        curves["where labels are known"] = calibration(scores, certain, BINS)
    if known.held_out.any() and not known.held_out.all():
        part = replace(
            known,
            observed=known.observed.select(np.flatnonzero(known.held_out)),
            estimates=None if known.estimates is None else known.estimates[known.held_out],
        )
        curves["held-out images"] = soft_calibration(
            scores[known.held_out], expected_labels(scores[known.held_out], part)
        )
    return save_figure(calibration_curves(curves), folder / "calibration")


def store_thresholds(folder: Path, thresholds: tuple[float, ...]) -> None:
    """Store thresholds in a model folder."""
    remove_dead_parts(folder)
    card = ModelCard.read(folder)
    card.thresholds = thresholds
    write_atomically(folder / "config.json", card.to_json())
    write_atomically(folder / "README.md", describe(card))


def thresholds(
    run: str | Path, device: str = "auto", progress: Progress | None = None, figures: bool = True
) -> ChosenThresholds:
    """`scob thresholds`: choose one threshold per class, draw the calibration, store them in the run's model folder."""
    finished = FinishedRun.open(Path(run))
    known = finished.images
    scob = Scob.from_pretrained(finished.model, device)
    if scob.classes != known.observed.classes:
        raise UserError(f"the model in {finished.model} has different classes from the run's labels")
    scores = score_split(scob, known.split, progress=part(progress, "scoring the run's images"))
    chosen = choose_thresholds(scores, known)
    if figures:
        chosen = replace(chosen, figures=calibration_figures(finished.path / "thresholds", scores, known))
    store_thresholds(finished.model, chosen.thresholds)
    return chosen
