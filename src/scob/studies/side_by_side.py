"""Several runs of a study at the same time on one CPU, each in a process of its own with one thread.

The threads of one process wait for each other at every small tensor, above all when other programs use a core; runs
beside each other do not. A worker computes the same bits as this process would with one thread. Signals go to this
process only: it ends its workers, and those that are training save first. A worker whose parent is gone ends with its
next event.
"""

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar, cast

import torch

from scob.data.decode_pool import no_main_module, signals_held
from scob.errors import UserError
from scob.training.events import Listener
from scob.training.stopping import Interrupted, StopRequest

PATIENCE = 8.0  # seconds that the workers have to save and end when they are told to

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Done:
    """What a worker sends at the end of a task; before that it sends events."""

    result: Any


@dataclass(frozen=True)
class Failed:
    """The error that a task ended with, and what that came from: `raise` loses it on the way between processes."""

    error: Exception
    cause: BaseException | None


def side_by_side(
    work: Callable[[Task, Listener], Result],
    tasks: Sequence[Task],
    at_once: int,
    listener_of: Callable[[Task], Listener],
) -> dict[Task, Result]:
    """`work(task, listen)` of every task, `at_once` at a time, begun in this order; the first error ends all.

    `work` is copied to each worker, which keeps its copy from task to task.
    """
    results: dict[Task, Result] = {}
    coming = iter(tasks)
    workers: dict[Connection, BaseProcess] = {}
    under_way: dict[Connection, tuple[Task, Listener]] = {}

    def begin_next(pipe: Connection) -> None:
        for task in coming:
            under_way[pipe] = task, listener_of(task)
            pipe.send(task)
            return

    with StopRequest():
        try:
            for _ in range(min(at_once, len(tasks))):
                pipe, process = start_worker(work)
                workers[pipe] = process
                begin_next(pipe)
            while under_way:
                for ready in wait(list(under_way)):
                    pipe = cast(Connection, ready)  # another class on Windows
                    task, listen = under_way[pipe]
                    match received(pipe, workers[pipe]):
                        case Done(result):
                            results[task] = result
                            del under_way[pipe]
                            begin_next(pipe)
                        case Failed(error, cause):
                            raise error from cause
                        case event:
                            listen(event)
        finally:
            with signals_held():
                end(workers)
    return results


def start_worker(work: Callable[[Any, Listener], Any]) -> tuple[Connection, BaseProcess]:
    """A new process that waits for tasks at the other end of the pipe."""
    context = multiprocessing.get_context("spawn")  # a fork beside threads is unsafe
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, work))
    with no_main_module(), signals_held():
        process.start()
    theirs.close()
    return ours, process


def received(pipe: Connection, process: BaseProcess) -> Any:
    """The next message of a worker."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        process.join(timeout=1)
        raise UserError(
            f"a process that was training died (exit code {process.exitcode}), most likely because memory ran out: end "
            "other programs, or set OMP_NUM_THREADS=1 to train one run after the other"
        ) from None


def end(workers: dict[Connection, BaseProcess]) -> None:
    """Tell the workers to end: one that is training saves first. Those that do not end soon are killed."""
    for process in workers.values():
        process.terminate()
    latest = time.monotonic() + PATIENCE
    for process in workers.values():
        process.join(max(0.0, latest - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    for pipe in workers:
        pipe.close()


def serve(pipe: Connection, work: Callable[[Any, Listener], Any]) -> None:
    """What a worker does: one task after another, until its parent ends it or is gone."""
    if hasattr(signal, "pthread_sigmask"):  # Ctrl+C stays held back: a terminal sends it to parent and workers alike
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError, Interrupted):
        while True:
            pipe.send(outcome(work, pipe.recv(), pipe.send))


def outcome(work: Callable[[Any, Listener], Any], task: Any, listen: Listener) -> Done | Failed:
    """The result of a task, or the error that it ended with."""
    try:
        return Done(work(task, listen))
    except Interrupted:
        raise
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        if not isinstance(error, UserError):
            error.add_note(f"In a worker process:\n{told}")
        failed = Failed(error, error.__cause__)
        try:
            ForkingPickler.dumps(failed)
            deepcopy(failed)  # made anew as it will be at the other end
        except Exception:  # not every exception can be sent
            return Failed(RuntimeError(told), None)
        return failed
