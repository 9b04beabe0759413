"""Runs side by side: results, events and errors of real worker processes."""

import multiprocessing
import os
from collections.abc import Callable

import pytest

from scob.errors import UserError
from scob.studies.side_by_side import Failed, outcome, serve, side_by_side
from scob.training.events import Event, Listener, Note, silent
from support.worker_tasks import Counting, fail, stubborn


def ignored(task: str) -> Listener:
    return silent


def test_tasks_are_done_by_other_processes_that_keep_their_state_and_have_one_thread() -> None:
    heard: list[tuple[str, Event]] = []

    def listener_of(task: str) -> Callable[[Event], None]:
        return lambda event: heard.append((task, event))

    results = side_by_side(Counting(), ["a", "b", "c"], 2, listener_of)
    assert {task: result[0] for task, result in results.items()} == {"a": "A", "b": "B", "c": "C"}
    workers = {result[1] for result in results.values()}
    assert 1 <= len(workers) <= 2 and os.getpid() not in workers
    assert max(result[2] for result in results.values()) == (2 if len(workers) == 2 else 3)
    assert {result[3] for result in results.values()} == {1}
    assert sorted(heard, key=str) == [(task, Note(f"doing {task}")) for task in "abc"]


def test_an_error_arrives_with_its_sentence_and_its_cause() -> None:
    with pytest.raises(UserError, match=r"^this is wrong$") as caught:
        side_by_side(fail, ["this"], 2, ignored)
    assert isinstance(caught.value.__cause__, MemoryError)


def test_a_worker_that_is_killed_is_noticed() -> None:
    with pytest.raises(UserError, match=r"died \(exit code -9\).*memory"):
        side_by_side(fail, ["crash"], 2, ignored)


def test_an_unexpected_error_brings_its_traceback_even_if_it_cannot_be_sent() -> None:
    unexpected, unsendable = outcome(len, "task", silent), outcome(stubborn, "task", silent)  # type: ignore[arg-type]
    assert isinstance(unexpected, Failed) and isinstance(unexpected.error, TypeError)
    assert "Traceback" in unexpected.error.__notes__[0]
    assert isinstance(unsendable, Failed) and "Stubborn: 1 and 2" in str(unsendable.error)


def test_a_worker_whose_parent_is_gone_ends_with_its_next_event() -> None:
    parents, workers = multiprocessing.Pipe()
    parents.send("a")
    parents.send("b")
    parents.close()
    work = Counting()
    serve(workers, work)
    assert work.done == 1
