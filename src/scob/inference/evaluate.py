"""`scob evaluate`: a trained model on a labelled split, as one table, JSON and two figures.

Under `accelerate launch` the images are shared out among the processes, each image to exactly one of them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scob.config import Config
from scob.data.feed import Feed, FeedOptions
from scob.data.readers import open_complete, splits_of
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.files import fingerprint, write_atomically
from scob.inference import plots
from scob.model.network import Network
from scob.parallel import Processes, start
from scob.training import metrics
from scob.training.find_model import find_model
from scob.training.metrics import Evaluation
from scob.training.model_folder import ModelCard, load_network
from scob.training.run_folder import RunFolder
from scob.training.scoring import model_source, score_images

Progress = Callable[[int, int], None]


def evaluate(
    model_or_run: Path | str,
    data: str | None = None,
    split: str | None = None,
    *,
    out: Path | None = None,
    format: str = "auto",
    threshold: float | None = None,
    mirror: bool | None = None,
    batch: int = 64,
    workers: int | None = None,
    cache: Path | None = None,
    difficult: str | None = None,
    skip_bad: bool = False,
    device: str = "auto",
    processes: Processes | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a model on a split of `data` and, with `out`, write what was found there.

    What is None comes from the run the model belongs to: its data and reported split, its reading of difficult
    objects, its test-time mirroring. `threshold` None takes the model's own, one a class.
    """
    found = find_model(Path(model_or_run))
    processes = processes or start(device)
    network, card = load_network(found.path, processes.device)
    run = RunFolder(found.run).read_config() if found.run is not None else None
    source = data or (run.data.source if run is not None else "")
    if not source:
        raise UserError(f"{found.path} does not know the data of its run: say which with --data SOURCE")
    if data is None and run is not None:
        if Path(run.data.evaluate).is_file():  # a table of its own, as `scob train --val` takes it
            source = run.data.evaluate
        elif format == "auto":
            format = run.data.format
        skip_bad = skip_bad or run.data.skip_bad
    options = ReadOptions(
        difficult=difficult or (run.data.difficult if run is not None else "negative"),
        classes=card.classes,
        skip_bad=skip_bad,
    )
    chosen = open_complete(source, split or _reported(source, format, run), options, format)
    mirrored = mirror if mirror is not None else bool(run is not None and run.train.flip_test)
    decoders = workers if workers is not None else (run.data.workers if run is not None else 0)
    scores = scores_of(network, card, chosen, processes, batch, mirrored, decoders, cache, skip_bad, progress)
    limit = card.thresholds if threshold is None else threshold
    limits: float | tuple[float, ...] = limit if isinstance(limit, float) or len(set(limit)) > 1 else limit[0]
    result = metrics.evaluate_scores(scores, chosen.labels.values, card.classes, limits)
    if out is not None and processes.first:
        facts = {
            "model": found.path.parent.name if run is not None else found.path.name,
            "method": card.method,
            "backbone": Path(card.backbone_name).name,
            "weights": card.weights or fingerprint(found.path / "model.safetensors"),
            "data": Path(source).name,
            "split": chosen.name,
            "labels": chosen.labels.fingerprint,
            "mirrored": mirrored,
        }
        write_evaluation(Path(out), result, scores, chosen.labels.values, card.classes, facts)
    processes.wait()
    return result


def scores_of(
    network: Network,
    card: ModelCard,
    split: Split,
    processes: Processes | None = None,
    batch: int = 64,
    mirror: bool = False,
    workers: int = 0,
    cache: Path | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Tensor:
    """Probabilities (N, L) of a split's images on the CPU, each image scored by exactly one process."""
    processes = processes or Processes()
    source = model_source(network, card, processes.device)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(min(len(split), done * processes.count), len(split))

    options = FeedOptions(workers, cache, skip_bad=skip_bad)
    with Feed(split, card.size, processes.device, options) as feed:
        return score_images(network, source, feed, batch, mirror, processes, tell)


def write_evaluation(
    folder: Path,
    result: Evaluation,
    scores: Tensor,
    reference: NDArray[np.int8],
    classes: tuple[str, ...],
    facts: dict[str, Any],
) -> tuple[Path, ...]:
    """Write evaluation.json, the bars of average precision and the precision-recall curves."""
    file = folder / "evaluation.json"
    text = json.dumps({**facts, **result.to_json()}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(file, text)
    curves = {
        name: metrics.precision_recall_curve(scores[:, column], reference[:, column])
        for column, name in enumerate(classes)
        if name not in result.undefined
    }
    bars = plots.save_figure(plots.class_bars(result.per_class), folder / "average-precision")
    lines = plots.save_figure(plots.precision_recall_curves(curves, result.per_class), folder / "precision-recall")
    return (file, *bars, *lines)


def _reported(source: str, format: str, run: Config | None) -> str | None:
    """The split to report when none was named: the run's, else 'val', else 'test', else all there is."""
    names = splits_of(source, format)
    for name in (run.data.evaluate if run is not None else "val", "val", "test"):
        if name in names:
            return name
    if len(names) > 1:
        raise UserError(f"{source} has the splits {', '.join(names)}: say which with --split")
    return None
