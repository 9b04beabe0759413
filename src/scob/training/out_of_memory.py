"""When memory runs out: score fewer images at once; for a step, find a batch size that fits and suggest it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from scob.algorithm.sampling import Batch
from scob.errors import UserError
from scob.training.events import Listener, Note, silent

SIGNS = ("can't allocate memory", "out of memory", "ALLOC_FAILED")  # of allocators that raise a plain RuntimeError


class StepTooLarge(UserError):
    """A training step does not fit into memory."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """A GPU has its own exception type; others are recognised by their message. What an error came from counts too."""
    while error is not None:
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(sign in str(error) for sign in SIGNS):
            return True
        error = error.__cause__ or error.__context__
    return False


def release() -> None:
    """Give memory that is no longer used back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class FittingBatch:
    """How many images to compute at once: halved when they do not fit into memory, and from then on."""

    def __init__(self, size: int, listen: Listener = silent) -> None:
        self.size, self.listen = size, listen

    def compute(self, images: int, part: Callable[[slice], Tensor]) -> Tensor:
        """`part` of images 0 ... images - 1, in pieces that fit, one after another."""
        pieces: list[Tensor] = []
        start = 0
        while start < images:
            stop = min(images, start + self.size)
            try:
                pieces.append(part(slice(start, stop)))
                start = stop
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            if stop - start == 1:
                raise UserError("not even one image fits into memory: close other programs, or use a smaller model")
            release()
            self.size = (stop - start) // 2
            self.listen(Note(f"memory is short: images are now scored {self.size} at a time"))
        return torch.cat(pieces)


def largest_fitting(batch: Batch, step: Callable[[Batch], object]) -> int:
    """The first of B/2, B/4, ... images for which a real step fits; 0 if not even one image does."""
    count = len(batch.rows) // 2
    while count:
        release()  # what the failed step allocated
        try:
            step(batch.first(count))
            return count
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        count //= 2
    return 0


@contextmanager
def suggest_batch_size(batch: Batch, asked: int, step: Callable[[Batch], object] | None) -> Iterator[None]:
    """If the step inside runs out of memory, say which `train.batch` fits. The run ends; trial steps are not saved.

    Without a `step` to try (several processes, a captured step), half the size is suggested.
    """
    try:
        yield
        return
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        where = "the GPU" if batch.rows.device.type == "cuda" else "memory"
    fits = largest_fitting(batch, step) if step is not None else asked // 2
    advice = f"train.batch={fits}" if fits else "a smaller data.size or model"
    tried = "fits (tried here)" if fits and step is not None else "may fit"
    raise StepTooLarge(
        f"a step with train.batch={asked} does not fit into {where}; {advice} {tried}. The last checkpoint is kept, "
        "but a run cannot change its batch size: start a new run"
    )
