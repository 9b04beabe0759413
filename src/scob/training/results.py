"""What a run measures after each epoch, and what it writes at its end: model, estimates, summary."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from scob.config import Config, TrainSettings
from scob.model.load_backbone import backbone_config
from scob.model.network import Network
from scob.training.build import Experiment
from scob.training.estimates import save_estimates
from scob.training.metrics import evaluate_scores, mean_average_precision
from scob.training.model_folder import ModelCard, write_model
from scob.training.run_data import Data, reference
from scob.training.run_folder import RunFolder
from scob.training.run_splits import how_measured

Scores = Callable[[str], Tensor]  # predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU


def measure(data: Data, settings: TrainSettings, scores_of: Scores) -> dict[str, float | None]:
    """mAP on the reported split, and on the held-out images by the labels that may choose the epoch."""
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


def write_results(
    e: Experiment, run: RunFolder, facts: Mapping[str, Any], scores_of: Scores, estimates: Tensor | None
) -> dict[str, Any]:
    """Evaluate the network as it is now; write the model folder, the estimates and the summary; return the summary.

    `facts` are what only the loop knows: epochs trained, epoch selected, seconds taken. `estimates` are those of the
    training images' labels, (N, L).
    """
    summary: dict[str, Any] = {
        "method": e.config.method,
        "epochs": e.config.train.epochs,
        **facts,
        "select": e.config.train.select,
        "holdout_labels": e.config.train.holdout_labels,
        "classes": list(e.data.observed.classes),
        "train_images": len(e.data.train),
        "labels": {"origin": e.data.drawn.origin, "fingerprint": e.data.drawn.fingerprint},
        "k": e.data.k,
        "backbone": e.config.model.backbone,
        "curve": run.curve(),
    }
    if e.data.evaluate is not None:
        evaluation = evaluate_scores(scores_of("evaluate"), e.data.evaluate.labels.values, e.data.observed.classes)
        summary["evaluation"] = evaluation.to_json()
        summary["evaluate_images"] = len(e.data.evaluate)
        summary["measured"] = how_measured(e.data.evaluate)
    summary["evaluate_split"] = e.data.evaluate.name if e.data.evaluate is not None else None
    with e.processes.together():
        if e.processes.first:
            if estimates is not None:
                save_estimates(run.path, e.data.observed.images, e.data.observed.classes, estimates.cpu().numpy())
            write_model(run.model, e.network, model_card(e, summary))
            run.write_summary(summary)
    return summary


def model_card(e: Experiment, summary: Mapping[str, Any]) -> ModelCard:
    """What the model folder of a finished experiment says about itself."""
    return card_of(e.config, e.network, e.data.observed.classes, (e.inputs.mean, e.inputs.std), summary)


def card_of(
    config: Config,
    network: Network,
    classes: tuple[str, ...],
    preprocessing: tuple[tuple[float, ...], tuple[float, ...]],
    summary: Mapping[str, Any],
) -> ModelCard:
    """The card of a network trained with these settings; `preprocessing` is the mean and deviation of its inputs."""
    return ModelCard(
        classes=classes,
        size=config.data.size,
        mean=preprocessing[0],
        std=preprocessing[1],
        thresholds=tuple(0.5 for _ in classes),
        model=config.model.model_dump(mode="json"),
        grids=network.backbone.grids(config.data.size),
        backbone_name=config.model.backbone,
        backbone=backbone_config(network.backbone),
        method=config.method,
        labels=summary["labels"],
        evaluation=summary.get("evaluation"),
        head=getattr(network.head, "recipe", None),
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
