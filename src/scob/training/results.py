"""What is measured of a run after each epoch, and what it leaves at its end: model, estimates, summary."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scob.config import TrainSettings
from scob.files import write_atomically
from scob.labels import ABSENT, PRESENT
from scob.training.build import Experiment
from scob.training.estimates import save_estimates
from scob.training.metrics import evaluate_scores, mean_average_precision
from scob.training.model_folder import save_model
from scob.training.run_data import Data
from scob.training.run_folder import RunFolder

Scores = Callable[[str], Tensor]  # predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU


def measure(data: Data, settings: TrainSettings, scores_of: Scores) -> dict[str, float | None]:
    """mAP on the reported split, and on the held-out images by the labels that the run may choose by."""
    measured: dict[str, float | None] = {}
    if data.evaluate is not None:
        measured["mAP"] = _finite(mean_average_precision(scores_of("evaluate"), data.evaluate.labels.values))
    if data.holdout is not None and data.holdout_observed is not None:
        scores = scores_of("holdout")
        known = reference(data.holdout_observed.values)
        measured["mAP-observed"] = measured["holdout"] = _finite(mean_average_precision(scores, known))
        if settings.holdout_labels == "full":
            full = _finite(mean_average_precision(scores, data.holdout.labels.values))
            measured["mAP-holdout-full"] = measured["holdout"] = full
    return measured


def reference(observed: NDArray[np.int8]) -> NDArray[np.int8]:
    """What scores are compared with if only observed labels (N, L) may be used.

    If there are at least as many known negatives as positives, unknown labels are left out. Otherwise (one positive per
    image, or hardly any negatives) unknown counts as absent.
    """
    if (observed == ABSENT).sum() >= (observed == PRESENT).sum():
        return observed
    return np.where(observed == PRESENT, PRESENT, ABSENT).astype(np.int8)


def conclude(e: Experiment, run: RunFolder, epoch: int | None, seconds: float, scores_of: Scores) -> dict[str, Any]:
    """Evaluate the network as it is; write the model folder, the estimates and the summary, which is returned."""
    summary: dict[str, Any] = {
        "method": e.config.method,
        "epochs": e.config.train.epochs,
        "selected_epoch": epoch,
        "select": e.config.train.select,
        "holdout_labels": e.config.train.holdout_labels,
        "classes": list(e.data.observed.classes),
        "train_images": len(e.data.train),
        "labels": {"origin": e.data.drawn.origin, "fingerprint": e.data.drawn.fingerprint},
        "k": e.data.k,
        "backbone": e.config.model.backbone,
        "seconds": round(seconds, 1),
        "curve": [{k: r.get(k) for k in r if k not in ("kind", "time")} for r in run.records("epoch")],
    }
    if e.data.evaluate is not None:
        evaluation = evaluate_scores(scores_of("evaluate"), e.data.evaluate.labels.values, e.data.observed.classes)
        summary["evaluation"] = evaluation.to_json()
        summary["evaluate_images"] = len(e.data.evaluate)
    estimates = e.method.estimates()
    with e.processes.together():
        if e.processes.first:
            if estimates is not None:
                save_estimates(run.path, e.data.observed.images, e.data.observed.classes, estimates.cpu().numpy())
            save_model(run.model, e, summary)
            write_atomically(run.summary_file, json.dumps(summary, indent=1))
    return summary


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
