"""Threads that work ahead of their caller. Does not import torch."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def work_ahead(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], count: int
) -> Iterator[Result]:
    """`work(item)` for each item, in order, while up to `count` more items are under way in `pool`.

    If the caller stops early, work that has not begun is cancelled.
    """
    coming: deque[Future[Result]] = deque()
    try:
        for item in items:
            coming.append(pool.submit(work, item))
            if len(coming) > count:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        for future in coming:
            future.cancel()
