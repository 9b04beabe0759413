"""One threshold per class, chosen from the known positives and the label estimator. No full labels are needed.

At a threshold t, recall R(t) is the share of a class's known positives that reach it, P(t) is the share of all images
that do, and the prevalence pi comes from the estimator (from the scores if there is none). The threshold with the
highest expected F1 = 2 R pi / (P + pi) is taken.

The F1 that is reported comes from held-out images alone, which the network was not trained on, and is cross-validated:
each fifth of them is measured at thresholds that were chosen without it.
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
    """The thresholds of a run and the numbers they were chosen by, one per class.

    `expected_f1` is NaN for a class with too few held-out positives to measure it; `overall_f1` is that of all labels
    together.
    """

    classes: tuple[str, ...]
    thresholds: tuple[float, ...]
    positives: tuple[int, ...]
    expected_f1: tuple[float, ...]
    prevalence: tuple[float, ...]
    pooled: tuple[bool, ...]
    overall_f1: float = float("nan")
    held_out: int = 0
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


def f1_of(recalled: int, positives: int, named: float, prevalence: float) -> float:
    """Expected F1 from how many known positives were recalled, and labels named and expected per image."""
    if positives < HELD:
        return float("nan")
    return float(min(1.0, 2 * recalled / positives * prevalence / max(1e-12, named + prevalence)))


def class_thresholds(
    scores: Floats, present: NDArray[np.bool_], held: NDArray[np.bool_], prevalence: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """The threshold of each class (L,), and whether it is the common one; `held` marks held-out positives, (N, L).

    Scores of training images are too high: a class with enough held-out positives uses only those.
    """
    common, _ = best_threshold(scores[present], scores.ravel(), float(prevalence.mean()))
    limits = np.full(scores.shape[1], common, np.float32)
    shared = present.sum(axis=0) < FEW
    for c in np.flatnonzero(~shared):
        measured = held[:, c] if held[:, c].any() else present[:, c]
        limits[c], _ = best_threshold(scores[measured, c], scores[:, c], float(prevalence[c]))
    return limits, shared


def choose_thresholds(scores: Floats, known: RunImages) -> ChosenThresholds:
    """One threshold per class from scores (N, L)."""
    present = known.observed.values == PRESENT
    if not present.any():
        raise UserError("no positive label is known: thresholds are chosen from known positives")
    prevalence = expected_labels(scores, known).mean(axis=0)
    held = present & known.held_out[:, None]
    enough = held & (held.sum(axis=0) >= HELD)
    limits, shared = class_thresholds(scores, present, enough, prevalence)
    recalled, named = cross_validated(scores, present, enough, prevalence, known)
    images, positives = int(known.held_out.sum()), held.sum(axis=0)
    f1 = [
        f1_of(int(recalled[c]), int(positives[c]), named[c] / max(1, images), float(prevalence[c]))
        for c in range(scores.shape[1])
    ]
    overall = f1_of(int(recalled.sum()), int(positives.sum()), named.sum() / max(1, images), float(prevalence.sum()))
    return ChosenThresholds(
        known.observed.classes,
        tuple(round(float(t), 4) for t in np.clip(limits, 0.01, 0.99)),
        tuple(int(n) for n in present.sum(axis=0)),
        tuple(f1),
        tuple(float(p) for p in prevalence),
        tuple(bool(s) for s in shared),
        overall,
        images,
    )


def cross_validated(
    scores: Floats,
    present: NDArray[np.bool_],
    enough: NDArray[np.bool_],
    prevalence: Floats,
    known: RunImages,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many known positives of held-out images are named, and how many labels in all, (L,) each.

    Each fifth of the held-out images is measured at thresholds that all other images choose.
    """
    part = np.full(len(scores), -1)
    rows = np.flatnonzero(known.held_out)
    part[rows[np.argsort(known.observed.keys[rows], kind="stable")]] = np.arange(len(rows)) % FOLDS
    recalled, named = np.zeros(scores.shape[1], np.int64), np.zeros(scores.shape[1], np.int64)
    for fold in range(FOLDS):
        inside = part == fold
        if not inside.any() or not present[~inside].any():
            continue
        limits, _ = class_thresholds(scores[~inside], present[~inside], enough[~inside], prevalence)
        above = scores[inside] >= limits
        recalled += (above & present[inside]).sum(axis=0)
        named += above.sum(axis=0)
    return recalled, named


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
