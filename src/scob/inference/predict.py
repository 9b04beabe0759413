"""Naming what is in images with a trained model. Does not import torch: an ONNX model does not need it."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scob.data.find_images import find_images
from scob.data.progress import Progress, part
from scob.inference.decoding import decoded_batches, name_of
from scob.inference.model import InferenceOptions, Scorer, load_model
from scob.inference.predictions import CsvLayout, NamingRule, Prediction, PredictionFile, decide
from scob.launch import Launch, launch
from scob.training.find_model import find_model

if TYPE_CHECKING:
    from scob.inference.decoding import Picture

NameImages = Callable[[Sequence[str], Progress | None], Iterator[Prediction]]
BATCHES = 32  # of each process, before they put their predictions together


def predict_images(
    model: Scorer,
    pictures: "Sequence[Picture]",
    naming: NamingRule = NamingRule(),
    batch: int = 16,
    include_scores: bool = False,
    progress: Progress | None = None,
) -> Iterator[Prediction]:
    """One prediction per picture, in order; a picture that cannot be read has an `error`."""
    done = 0
    with closing(decoded_batches(pictures, model.size, batch)) as batches:
        for group in batches:
            readable = [pixels for _, pixels, _ in group if pixels is not None]
            scores = iter(model.scores(np.stack(readable)) if readable else ())
            for number, pixels, error in group:
                name = name_of(pictures[number], number)
                if pixels is None:
                    yield Prediction(name, error=error)
                    continue
                yield decide(name, next(scores), model.classes, model.thresholds, naming, include_scores)
            done += len(group)
            if progress is not None:
                progress(done, len(pictures))


def share_of(count: int, rank: int, processes: int) -> range:
    """The contiguous share of `count` images that one of several processes handles."""
    each = -(-count // processes)
    return range(min(count, rank * each), min(count, (rank + 1) * each))


def predict(
    model: str | Path,
    images: Iterable[str | Path],
    out: Path | None = None,
    format: str | CsvLayout = "csv",
    naming: NamingRule = NamingRule(),
    include_scores: bool = False,
    running: InferenceOptions = InferenceOptions(),
) -> dict[str, Any]:
    """`scob predict`: name what is in files, folders and patterns, and write it to `out` (stdout without one).

    The word '-' among `images` reads a list of files from stdin. Under `accelerate launch` or `torchrun` every process
    takes its share and the first one writes. Returns counts; `named` has one for each class.
    """
    we = launch()
    if we.count > 1:
        from scob.parallel import start

        start("cpu" if find_model(model).is_onnx else running.device)
    files = find_images(images, sys.stdin)
    scorer = load_model(model, running.device)

    def name_images(paths: Sequence[str], progress: Progress | None) -> Iterator[Prediction]:
        return predict_images(scorer, paths, naming, running.batch, include_scores, progress)

    if we.count == 1:
        predictions = name_images(files.paths, part(running.progress, "predicting"))
    else:
        predictions = _together(name_images, files.paths, we, running)
        if not we.first:
            for _ in predictions:
                pass
            return {"images": 0, "broken": 0, "skipped": 0, "rank": we.rank, "named": {}}
    broken, named = 0, Counter[str]()
    with PredictionFile(out, format, scorer.classes, include_scores) as file:
        for prediction in predictions:
            file.add(prediction)
            broken += bool(prediction.error)
            named.update(prediction.labels)
    counts = {"images": file.count, "broken": broken, "skipped": files.skipped, "rank": we.rank}
    return {**counts, "named": dict(named.most_common())}


def _together(
    name_images: NameImages, paths: Sequence[str], we: Launch, running: InferenceOptions
) -> Iterator[Prediction]:
    """The predictions of all processes, in the order of the images.

    They share one block of images after another, so that no process waits long for the others.
    """
    from accelerate.utils import gather_object

    block = BATCHES * running.batch * we.count
    for begin in range(0, len(paths), block):
        part = paths[begin : begin + block]
        own = [part[i] for i in share_of(len(part), we.rank, we.count)]
        every: list[Prediction] = gather_object(list(name_images(own, None)))
        if running.progress is not None and we.first:
            running.progress(begin + len(part), len(paths))
        yield from every
