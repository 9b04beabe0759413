"""Working ahead: in order, not too far, and no more once the caller stops."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from scob.data.ahead import work_ahead


def test_results_come_in_the_order_of_the_items() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(work_ahead(pool, lambda n: n * n, range(50), 8)) == [n * n for n in range(50)]


def test_at_most_count_items_are_begun_ahead() -> None:
    begun: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        results = work_ahead(pool, begun.append, range(100), 3)
        next(results)
        pool.submit(lambda: None).result()  # everything submitted before this has run
        assert len(begun) == 4


def test_stopping_early_cancels_what_has_not_begun() -> None:
    gate, begun = threading.Event(), []

    def work(number: int) -> int:
        begun.append(number)
        if number:
            gate.wait(5)
        return number

    with ThreadPoolExecutor(1) as pool:
        results = work_ahead(pool, work, range(100), 4)
        assert next(results) == 0
        results.close()  # type: ignore[attr-defined]
        gate.set()
    assert set(begun) <= {0, 1}


def test_an_error_reaches_the_caller() -> None:
    def work(number: int) -> int:
        raise ValueError(f"item {number}")

    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="item 0"):
        list(work_ahead(pool, work, range(3), 2))
