"""How good recovered labels are, where the data set knows the labels that the run did not see."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.files import write_atomically
from scob.inference.plots import calibration_curves, save_figure
from scob.inference.scoring import Floats
from scob.labels import ABSENT, PRESENT, UNKNOWN
from scob.training.finished_run import FinishedRun
from scob.training.metrics import calibration, null_for_nan, recovery_metrics

FILE, FIGURE = "recovery.json", "reliability"


@dataclass(frozen=True)
class MeasuredRecovery:
    """Recovered labels against the truth, over the entries that the run did not see; rates in percent.

    Average precision is that of one ranked list of all entries; precision and recall are those of the entries that
    reach their class's threshold. `calibration_error` is the expected calibration error of the probabilities,
    `uncalibrated_error` that of the scores they were made from.
    """

    average_precision: float
    precision: float
    recall: float
    calibration_error: float
    uncalibrated_error: float
    entries: int
    positives: int


def true_labels(run: FinishedRun) -> NDArray[np.int8]:
    """What the data set says about the run's own images, (N, L) in the order of `run.images`."""
    data = run.data
    splits = [data.train, *([data.holdout] if data.holdout is not None else [])]
    row_of = {name: row for split in splits for name, row in zip(split.labels.images, split.labels.values, strict=True)}
    return np.stack([row_of[name] for name in run.images.observed.images])


def measure(
    scores: Floats,
    probability: Floats,
    observed: NDArray[np.int8],
    truth: NDArray[np.int8],
    thresholds: Sequence[float],
) -> MeasuredRecovery | None:
    """Compare with the truth, all (N, L); None if it does not have both positives and negatives among the unseen."""
    unseen = unseen_truth(observed, truth)
    if not (unseen == PRESENT).any() or not (unseen == ABSENT).any():
        return None
    decided = recovery_metrics(scores, observed, truth, thresholds)
    return MeasuredRecovery(
        recovery_metrics(probability, observed, truth).average_precision,
        decided.precision,
        decided.recall,
        calibration(probability, unseen).error,
        calibration(scores, unseen).error,
        decided.entries,
        decided.positives,
    )


def unseen_truth(observed: NDArray[np.int8], truth: NDArray[np.int8]) -> NDArray[np.int8]:
    """The truth where it was not observed, 0 elsewhere."""
    return np.asarray(np.where(observed == UNKNOWN, truth, UNKNOWN), dtype=np.int8)


def write_measured(
    folder: Path, measured: MeasuredRecovery, scores: Floats, probability: Floats, unseen: NDArray[np.int8]
) -> list[Path]:
    """Write recovery.json and the reliability plot; `unseen` (N, L) is the truth where it was not observed."""
    write_atomically(folder / FILE, json.dumps(null_for_nan(asdict(measured)), indent=1) + "\n")
    curves = {"score": calibration(scores, unseen), "calibrated": calibration(probability, unseen)}
    return [folder / FILE, *save_figure(calibration_curves(curves), folder / FIGURE)]
