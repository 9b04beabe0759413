"""When a step does not fit into memory: which batch would have."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from scob.algorithm.sampling import Batch
from scob.errors import UserError


def is_shortage(error: BaseException) -> bool:
    """A GPU says so by its own exception, a CPU by the words of a plain one."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def largest_fitting(batch: Batch, step: Callable[[Batch], object]) -> int:
    """The first of B/2, B/4, ... images that a real step takes; 0 where not even one image fits."""
    count = len(batch.rows) // 2
    while count:
        gc.collect()  # what the failed step held
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        try:
            step(part_of(batch, count))
            return count
        except RuntimeError as error:
            if not is_shortage(error):
                raise
        count //= 2
    return 0


def part_of(batch: Batch, count: int) -> Batch:
    """The first images of a batch."""
    names = ("rows", "keys", "chosen", "positives", "weight", "images", "positive_images")
    parts = {n: value[:count] for n in names if (value := getattr(batch, n)) is not None}
    return replace(batch, **parts)


@contextmanager
def suggesting(batch: Batch, asked: int, step: Callable[[Batch], object] | None) -> Iterator[None]:
    """Say which `train.batch` fits when this step's does not. The steps tried for it end with the run, unsaved.

    `step` None: trying is not possible (several processes, a captured step), and half is suggested.
    """
    try:
        yield
        return
    except RuntimeError as error:
        if not is_shortage(error):
            raise
        where = "the GPU" if batch.rows.device.type == "cuda" else "memory"
    fits = largest_fitting(batch, step) if step is not None else asked // 2
    advice = f"train.batch={fits}" if fits else "a smaller data.size or model"
    tried = "fits, tried here" if fits and step is not None else "may fit"
    raise UserError(
        f"a step of train.batch={asked} does not fit into {where}; {advice} {tried}. The last checkpoint is kept, but "
        "another batch is another run: start one with it"
    )
