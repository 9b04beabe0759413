"""Scoring a split: by any model in this process, or by a network over several processes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scob.data.feed import Feed, FeedOptions
from scob.data.progress import Progress, part
from scob.data.split import Split
from scob.inference.decoding import Pixels, decoded_ahead
from scob.inference.model import Scorer
from scob.model.network import Network
from scob.parallel import Processes
from scob.training.model_folder import ModelCard
from scob.training.scoring import model_source, score_images

Floats = NDArray[np.float32]


def score_split(model: Scorer, split: Split, batch: int = 16, progress: Progress | None = None) -> Floats:
    """Probabilities (N, L) of a split's images."""
    return score_together([model], split, batch, progress)[0]


def score_together(
    models: Sequence[Scorer], split: Split, batch: int = 16, progress: Progress | None = None
) -> list[Floats]:
    """Probabilities (N, L) by each of several models of one input size; each image is decoded once."""
    size = models[0].size

    def load(start: int) -> Pixels:
        rows = range(start, min(start + batch, len(split)))
        return np.stack([split.images.load(row, size) for row in rows])

    scores: list[list[Floats]] = [[] for _ in models]
    done = 0
    with decoded_ahead(load, range(0, len(split), batch), ahead=2, threads=2) as batches:
        for pixels in batches:
            for model, parts in zip(models, scores, strict=True):
                parts.append(model.scores(pixels))
            done += len(pixels)
            if progress is not None:
                progress(done, len(split))
    return [np.concatenate(parts) for parts in scores]


@dataclass(frozen=True)
class ScoringOptions:
    """How a network scores a split: images per batch, averaged with the mirror image or not, how they are decoded.

    `workers` are decoding processes, `cache` is the folder of the packed image cache. `evaluate` replaces None by the
    setting of the model's run.
    """

    batch: int = 64
    mirror: bool | None = None
    workers: int | None = None
    cache: Path | None = None
    progress: Progress | None = None


def score_over_processes(
    network: Network,
    card: ModelCard,
    split: Split,
    scoring: ScoringOptions = ScoringOptions(),
    processes: Processes | None = None,
    skip_bad: bool = False,
) -> Tensor:
    """Probabilities (N, L) of a split's images on the CPU, each image scored by exactly one process."""
    processes = processes or Processes()
    source = model_source(network, card, processes.device)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if scoring.progress is not None:
            scoring.progress(min(len(split), done * processes.count), len(split))

    options = FeedOptions(scoring.workers or 0, scoring.cache, skip_bad=skip_bad)
    scoring = replace(scoring, progress=part(scoring.progress, "scoring"))
    with Feed(split, card.size, processes.device, options) as feed:
        return score_images(network, source, feed, scoring.batch, bool(scoring.mirror), processes, report)
