"""When a step runs out of memory: find a batch size that fits, and suggest it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from scob.algorithm.sampling import Batch
from scob.errors import UserError


def is_out_of_memory(error: BaseException) -> bool:
    """A GPU has its own exception type; a CPU error can only be recognised by its message."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def largest_fitting(batch: Batch, step: Callable[[Batch], object]) -> int:
    """The first of B/2, B/4, ... images for which a real step fits; 0 if not even one image does."""
    count = len(batch.rows) // 2
    while count:
        gc.collect()  # free what the failed step allocated
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        try:
            step(first_images(batch, count))
            return count
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        count //= 2
    return 0


def first_images(batch: Batch, count: int) -> Batch:
    """The first `count` images of a batch."""
    names = ("rows", "keys", "chosen", "positives", "weight", "images", "positive_images")
    parts = {n: value[:count] for n in names if (value := getattr(batch, n)) is not None}
    return replace(batch, **parts)


@contextmanager
def suggest_batch_size(batch: Batch, asked: int, step: Callable[[Batch], object] | None) -> Iterator[None]:
    """If the step inside runs out of memory, say which `train.batch` fits. The run ends; trial steps are not saved.

    Without a `step` to try (several processes, a captured step), half the size is suggested.
    """
    try:
        yield
        return
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        where = "the GPU" if batch.rows.device.type == "cuda" else "memory"
    fits = largest_fitting(batch, step) if step is not None else asked // 2
    advice = f"train.batch={fits}" if fits else "a smaller data.size or model"
    tried = "fits (tried here)" if fits and step is not None else "may fit"
    raise UserError(
        f"a step with train.batch={asked} does not fit into {where}; {advice} {tried}. The last checkpoint is kept, "
        "but a run cannot change its batch size: start a new run"
    )
