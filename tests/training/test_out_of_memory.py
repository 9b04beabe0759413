"""A step that runs out of memory: which batch size is suggested."""

from collections.abc import Callable

import pytest
import torch

from scob.algorithm.sampling import Batch
from scob.errors import UserError
from scob.training.events import Event, Note
from scob.training.out_of_memory import FittingBatch, is_out_of_memory, largest_fitting, suggest_batch_size


def batch_of(count: int) -> Batch:
    rows = torch.arange(count)
    return Batch(rows, rows, rows, rows, torch.full((count,), 1 / count), epoch=1, step=7, images=rows[:, None])


def fits(most: int, tried: list[int]) -> Callable[[Batch], None]:
    """A step for which at most that many images fit into memory."""

    def step(batch: Batch) -> None:
        tried.append(len(batch.rows))
        if len(batch.rows) > most:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    return step


@pytest.mark.parametrize(
    ("most", "expected", "sizes"), [(100, 8, [8]), (5, 4, [8, 4]), (1, 1, [8, 4, 2, 1]), (0, 0, [8, 4, 2, 1])]
)
def test_halves_are_tried_until_one_fits(most: int, expected: int, sizes: list[int]) -> None:
    tried: list[int] = []
    assert largest_fitting(batch_of(16), fits(most, tried)) == expected
    assert tried == sizes


def test_both_kinds_of_memory_errors_are_recognised() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(RuntimeError("can't allocate memory: you tried to allocate 1 byte"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes differ"))


def test_an_error_that_came_from_a_lack_of_memory_is_one() -> None:
    """A capture that ends early raises an error of its own."""
    try:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("operation not permitted when stream is capturing")
    except RuntimeError as error:
        assert is_out_of_memory(error)


@pytest.mark.parametrize(("most", "sizes"), [(64, [10]), (9, [5, 5]), (4, [2] * 5), (1, [1] * 10)])
def test_a_batch_is_halved_until_it_fits_and_stays_so(most: int, sizes: list[int]) -> None:
    done: list[int] = []
    events: list[Event] = []

    def part(rows: slice) -> torch.Tensor:
        if rows.stop - rows.start > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        done.append(rows.stop - rows.start)
        return torch.arange(10)[rows]

    batch = FittingBatch(64, events.append)
    assert batch.compute(10, part).tolist() == list(range(10))
    assert done == sizes
    assert all(isinstance(event, Note) and "memory is short" in event.message for event in events)
    assert len(events) == {64: 0, 9: 1, 4: 2, 1: 3}[most]
    count = len(events)
    batch.compute(10, part)
    assert len(events) == count


def test_an_image_that_does_not_fit_alone_is_an_error_and_other_errors_stay() -> None:
    with pytest.raises(UserError, match="not even one image fits"):
        FittingBatch(4).compute(4, lambda rows: fits(0, [])(batch_of(4)) or torch.ones(0))
    with pytest.raises(ZeroDivisionError):
        FittingBatch(4).compute(4, lambda rows: torch.tensor([1 // 0]))


@pytest.mark.parametrize(
    ("most", "advice"),
    [
        (5, r"train\.batch=4 fits \(tried here\)"),
        (0, r"a smaller data\.size or model may fit"),
        (None, r"train\.batch=8 may fit"),
    ],
)
def test_the_error_suggests_a_batch_size(most: int | None, advice: str) -> None:
    step = None if most is None else fits(most, [])
    with (
        pytest.raises(UserError, match=rf"train\.batch=16 does not fit into memory; {advice}\. The last checkpoint"),
        suggest_batch_size(batch_of(16), 16, step),
    ):
        fits(0, [])(batch_of(16))


def test_other_errors_are_not_about_memory() -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), suggest_batch_size(batch_of(4), 4, None):
        raise RuntimeError("shapes differ")
    with suggest_batch_size(batch_of(4), 4, None):
        pass
