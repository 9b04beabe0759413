"""`scob evaluate`: a trained model on a labelled split, as a table, JSON and two figures.

Under `accelerate launch` the processes share the images; each image is scored by exactly one of them.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scob.config import Config
from scob.data.readers import SplitError, match_split, open_complete, splits_of
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.files import fingerprint, remove_dead_parts, write_atomically
from scob.inference import plots
from scob.inference.scoring import ScoringOptions, score_over_processes
from scob.parallel import Processes, start
from scob.training import metrics
from scob.training.find_model import find_model
from scob.training.finished_run import FinishedRun
from scob.training.metrics import Evaluation
from scob.training.model_folder import load_network
from scob.training.run_folder import RunFolder
from scob.training.run_splits import HELD_OUT, how_measured, run_splits


@dataclass(frozen=True)
class DataOptions:
    """How the labelled data are read: the reader, what VOC's difficult objects count as, whether to skip broken images.

    `difficult` None takes the setting of the model's run.
    """

    format: str = "auto"
    difficult: str | None = None
    skip_bad: bool = False


def evaluate(
    model_or_run: Path | str,
    data: str | None = None,
    split: str | None = None,
    *,
    out: Path | None = None,
    threshold: float | None = None,
    reading: DataOptions = DataOptions(),
    scoring: ScoringOptions = ScoringOptions(),
    processes: Processes | None = None,
) -> Evaluation:
    """Measure a model on a split of `data`; with `out`, write the results to that folder.

    Anything that is None comes from the run the model belongs to: its data and reported split, how it read difficult
    objects, whether it averaged with the mirror image. `threshold` None takes the model's own, one per class.
    """
    model = find_model(Path(model_or_run))
    processes = processes or start("auto")
    network, card = load_network(model.path, processes.device)
    run = RunFolder(model.run).read_config() if model.run is not None else None
    source, reading = source_of(model.path, data, reading, run)
    if model.run is not None and run is not None and not data and not split and run.data.evaluate == HELD_OUT:
        labelled = FinishedRun.open(model.run).data.evaluate
    else:
        labelled = open_labelled(source, split, card.classes, reading, run)
    assert labelled is not None
    scoring = _filled_in_from(scoring, run)
    scores = score_over_processes(network, card, labelled, scoring, processes, reading.skip_bad)
    limit = card.thresholds if threshold is None else threshold
    limits: float | tuple[float, ...] = limit if isinstance(limit, float) or len(set(limit)) > 1 else limit[0]
    result = metrics.evaluate_scores(scores, labelled.labels.values, card.classes, limits)
    if out is not None and processes.first:
        facts = {
            "model": model.path.parent.name if run is not None else model.path.name,
            "method": card.method,
            "backbone": Path(card.backbone_name).name,
            "weights": card.weights or fingerprint(model.path / "model.safetensors"),
            "data": Path(source).name,
            "split": labelled.name,
            "labels": labelled.labels.fingerprint,
            "measured": how_measured(labelled),
            "mirrored": scoring.mirror,
        }
        write_evaluation(Path(out), result, scores, labelled, facts)
    processes.wait()
    return result


def write_evaluation(
    folder: Path, result: Evaluation, scores: Tensor, labelled: Split, facts: dict[str, Any]
) -> tuple[Path, ...]:
    """Write evaluation.json, the bar chart of average precision and the precision-recall curves."""
    remove_dead_parts(folder)
    file = folder / "evaluation.json"
    text = json.dumps({**facts, **result.to_json()}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(file, text)
    reference: NDArray[np.int8] = labelled.labels.values
    curves = {
        name: metrics.precision_recall_curve(scores[:, column], reference[:, column])
        for column, name in enumerate(labelled.labels.classes)
        if name not in result.undefined
    }
    bars = plots.save_figure(plots.class_bars(result.per_class), folder / "average-precision")
    lines = plots.save_figure(plots.precision_recall_curves(curves, result.per_class), folder / "precision-recall")
    return (file, *bars, *lines)


def open_labelled(
    source: str, split: str | None, classes: tuple[str, ...], reading: DataOptions, run: Config | None
) -> Split:
    """The split to measure on, with every label known; None: the one that the run reports on."""
    options = ReadOptions(
        difficult=reading.difficult or (run.data.difficult if run is not None else "negative"),
        classes=classes,
        skip_bad=reading.skip_bad,
    )
    return open_complete(source, split or _reported(source, reading.format, run), options, reading.format)


def source_of(model: Path, data: str | None, reading: DataOptions, run: Config | None) -> tuple[str, DataOptions]:
    """The data to measure on, the run's own by default, and how to read them."""
    source = data or (run.data.source if run is not None else "")
    if not source:
        raise UserError(f"{model} does not record which data it was trained on: give --data SOURCE")
    if data is None and run is not None:
        reading = replace(reading, skip_bad=reading.skip_bad or run.data.skip_bad)
        if Path(run.data.evaluate).is_file():  # a table of its own, from `scob train --val`
            source = run.data.evaluate
        elif reading.format == "auto":
            reading = replace(reading, format=run.data.format)
    return source, reading


def _filled_in_from(scoring: ScoringOptions, run: Config | None) -> ScoringOptions:
    """Fill in what is None from the run: mirroring and decoding processes."""
    mirror, workers = scoring.mirror, scoring.workers
    if mirror is None:
        mirror = bool(run is not None and run.train.flip_test)
    if workers is None:
        workers = run.data.workers if run is not None else 0
    return replace(scoring, mirror=mirror, workers=workers)


def _reported(source: str, format: str, run: Config | None) -> str | None:
    """The split to report if none was named: the run's, else 'val', else 'test', else the only one there is.

    `run` has the settings of the model's run. On the run's own data, never the split it was trained on.
    """
    names = splits_of(source, format)
    trained = None
    if run is not None and source == run.data.source:
        trained = match_split(run.data.train, names) or (names[0] if len(names) == 1 else None)
        with suppress(UserError):  # an older run may name a split that never existed
            if (reported := run_splits(run).reported) is not None:
                return reported
    for name in (run.data.evaluate if run is not None else "val", "val", "test"):
        if (split := match_split(name, names)) is not None and split != trained:
            return split
    if len(names) > 1:
        raise SplitError(f"{source} has the splits {', '.join(names)}: choose one with --split")
    if trained is not None:
        raise SplitError(
            f"{source} has no split besides {trained!r}, which the model was trained on: give labelled images with "
            f"--data, or measure the training images with --split {trained}"
        )
    return None
