"""What is measured of a run, after each epoch and at its end, and what it leaves: model, estimates, summary."""

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
from scob.training.build import Data, Experiment, Report
from scob.training.metrics import evaluate_scores, mean_average_precision
from scob.training.run_folder import RunFolder

Scores = Callable[[str], Tensor]  # predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU


def measure(data: Data, settings: TrainSettings, scores_of: Scores) -> dict[str, float | None]:
    """mAP on the reported split, and on the held-out images by the labels that the run may use for choosing."""
    found: dict[str, float | None] = {}
    if data.evaluate is not None:
        found["mAP"] = _number(mean_average_precision(scores_of("evaluate"), data.evaluate.labels.values))
    if data.holdout is not None and data.holdout_observed is not None:
        scores = scores_of("holdout")
        known = reference(data.holdout_observed.values)
        found["mAP-observed"] = found["holdout"] = _number(mean_average_precision(scores, known))
        if settings.holdout_labels == "full":
            full = _number(mean_average_precision(scores, data.holdout.labels.values))
            found["mAP-holdout-full"] = found["holdout"] = full
    return found


def reference(observed: NDArray[np.int8]) -> NDArray[np.int8]:
    """What observed labels (N, L) can be held against: unknown ones are left out where known negatives say enough.

    With one positive an image there are none, and with a few they would be a strange choice of negatives: below as
    many as there are positives, unknown counts as absent.
    """
    if (observed == ABSENT).sum() >= (observed == PRESENT).sum():
        return observed
    return np.where(observed == PRESENT, PRESENT, ABSENT).astype(np.int8)


def conclude(
    e: Experiment, run: RunFolder, epoch: int | None, seconds: float, scores_of: Scores, report: Report
) -> dict[str, Any]:
    """Evaluate the network as it is, write the model folder and the summary."""
    from scob.training.estimates import save_estimates
    from scob.training.model_folder import save_model

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
        measured = evaluate_scores(scores_of("evaluate"), e.data.evaluate.labels.values, e.data.observed.classes)
        summary["evaluation"] = measured.to_json()
        summary["evaluate_images"] = len(e.data.evaluate)
    observed = e.data.observed
    seen = {"train": scores_of("train"), "observed": observed.values, "truth": e.data.train.labels.values}
    report("scores", {**seen, "experiment": e})
    estimates = e.method.estimates()
    with e.processes.together():
        if e.processes.first:
            if estimates is not None:
                save_estimates(run.path, observed.images, observed.classes, estimates.cpu().numpy())
            save_model(run.model, e, summary)
            write_atomically(run.summary_file, json.dumps(summary, indent=1))
    return summary


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
