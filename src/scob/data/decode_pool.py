"""Processes that decode images into shared memory.

Each worker writes pixels into a block of memory that both sides map; only file names and error messages go through
its pipe. A worker that dies is noticed at once, because the pool waits for its exit as well as for its answer. Ctrl+C
and a SIGTERM to the whole group (`timeout`, SLURM) reach workers too; they leave both to their parent, which may need
them to finish a step, and end when its pipe closes.
"""

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.images import decode
from scob.errors import UserError

Task = list[tuple[int, str, str]]  # slot, file, how to name the image in a message
Failures = list[tuple[int, str]]  # slot, what is wrong
PIPE_BYTES = 1 << 15  # at most this many bytes wait in a worker's pipe
PARENTS = (signal.SIGINT, signal.SIGTERM)  # signals that a worker leaves to its parent


@dataclass
class Ticket:
    """A batch under way: the block it fills, how many workers still owe their part, what could not be decoded."""

    block: int
    count: int
    owed: int = 0
    failures: Failures = field(default_factory=list)


class DecodePool:
    """`workers` processes that fill blocks of up to `capacity` images (3, size, size)."""

    def __init__(self, workers: int, size: int, capacity: int, blocks: int) -> None:
        self.size, self.capacity = size, capacity
        shape = (blocks, capacity, 3, size, size)
        context = multiprocessing.get_context("spawn")  # a fork beside CUDA and threads is unsafe
        path = _shared_file(int(np.prod(shape)))
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        # At its end, Python waits for workers that nobody stopped; SIGTERM would not end them, a closed pipe does.
        Finalize(self, _hang_up, (self._pipes,), exitpriority=0)
        self._waiting: list[deque[tuple[Ticket, int]]] = [deque() for _ in range(workers)]
        self._free = list(range(blocks))
        try:
            self._memory: NDArray[np.uint8] = np.memmap(path, np.uint8, "r+", shape=shape)
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, str(path), shape), daemon=True)
                with no_main_module(), signals_held():
                    process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(ours)
            for number in range(workers):
                self._receive(number)
        except BaseException:
            self.close()
            raise
        finally:
            with contextlib.suppress(OSError):
                path.unlink()  # everyone has it mapped: nothing is left behind, however this process ends

    @property
    def alive(self) -> bool:
        """Whether the workers are running."""
        return bool(self._pipes)

    def submit(self, tasks: list[tuple[str, str]]) -> Ticket | None:
        """Start decoding (file, name) pairs; None when every block is in use."""
        if not self._free:
            return None
        ticket = Ticket(self._free.pop(), len(tasks))
        share = -(-len(tasks) // len(self._pipes))
        for number in range(len(self._pipes)):
            part: Task = [(i, *tasks[i]) for i in range(number * share, min((number + 1) * share, len(tasks)))]
            if part:
                self._send(number, ticket, part)
        return ticket

    def _send(self, number: int, ticket: Ticket, part: Task) -> None:
        """Give a worker its part without filling its pipe: two sides that both write would wait forever."""
        weight = sum(len(file) + len(where) + 32 for _, file, where in part)
        waiting = self._waiting[number]
        while waiting and weight + sum(each for _, each in waiting) > PIPE_BYTES:
            self._poll()
        try:
            self._pipes[number].send((ticket.block, part))
        except OSError:
            raise self._death(number) from None
        waiting.append((ticket, weight))
        ticket.owed += 1

    def collect(self, ticket: Ticket) -> tuple[NDArray[np.uint8], Failures]:
        """Wait for a ticket: (count, 3, size, size), valid until `release`, and what could not be decoded."""
        while ticket.owed:
            self._poll()
        return self._memory[ticket.block, : ticket.count], ticket.failures

    def release(self, ticket: Ticket) -> None:
        """Free the ticket's block, once every worker has finished with it."""
        while ticket.owed:
            self._poll()
        self._free.append(ticket.block)

    def close(self) -> None:
        """Stop the workers."""
        _hang_up(self._pipes)
        for process in self._processes:
            process.join(timeout=2)
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes.clear()
        self._processes.clear()
        for tickets in self._waiting:
            for ticket, _ in tickets:
                ticket.owed = 0
            tickets.clear()

    def _poll(self) -> None:
        owing: dict[object, int] = {}
        for number, tickets in enumerate(self._waiting):
            if tickets:
                owing[self._pipes[number]] = owing[self._processes[number].sentinel] = number
        ready: list[object] = [*wait([*owing])]  # type: ignore[list-item]
        for number in {owing[handle] for handle in ready}:
            failures = self._receive(number)
            ticket, _ = self._waiting[number].popleft()
            ticket.failures += failures
            ticket.owed -= 1

    def _receive(self, number: int) -> Failures:
        pipe = self._pipes[number]
        try:
            while not pipe.poll(0.2):
                if not self._processes[number].is_alive() and not pipe.poll(0):
                    raise EOFError
            failures: Failures = pipe.recv()
            return failures
        except (EOFError, OSError):
            raise self._death(number) from None

    def _death(self, number: int) -> UserError:
        self._processes[number].join(timeout=1)
        code = self._processes[number].exitcode
        self.close()
        return UserError(
            f"a process that decodes images died (exit code {code}); memory may have run out: "
            "try again with fewer data.workers"
        )


@contextlib.contextmanager
def no_main_module() -> Iterator[None]:
    """Keep a worker from running the caller's script, which it does not need."""
    main = sys.modules["__main__"]
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if file is not None:
        del main.__file__
    main.__spec__ = None
    try:
        yield
    finally:
        if file is not None:
            main.__file__ = file
        main.__spec__ = spec


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Hold Ctrl+C and SIGTERM back: a process started meanwhile hears neither, even before it runs a line of ours."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PARENTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hang_up(pipes: list[Connection]) -> None:
    """Close the parent's ends: the workers end."""
    for pipe in pipes:
        pipe.close()


def _shared_file(size: int) -> Path:
    """A new file of `size` bytes to map: in memory if there is room, else on disk."""
    shared = Path("/dev/shm")
    folder = None
    if shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > size + (16 << 20):
        folder = shared
    try:
        handle, name = tempfile.mkstemp(prefix="scob-decode-", dir=folder)
    except OSError as error:
        raise UserError(f"cannot create a file to share with the decoding processes: {error}") from error
    try:
        if hasattr(os, "posix_fallocate"):  # reserve the space now: to run out later would be a bus error
            os.posix_fallocate(handle, 0, size)
        else:
            os.ftruncate(handle, size)
    except OSError as error:
        Path(name).unlink()
        raise UserError(
            f"no room for {size >> 20} MiB to share with the decoding processes ({error.strerror}); "
            "free some space, or set data.workers to 0"
        ) from error
    finally:
        os.close(handle)
    return Path(name)


def _serve(pipe: Connection, path: str, shape: tuple[int, ...]) -> None:
    """What a worker does: decode the files that arrive into their block, until the pipe closes."""
    for number in PARENTS:
        signal.signal(number, signal.SIG_IGN)
    memory: NDArray[np.uint8] = np.memmap(path, np.uint8, "r+", shape=shape)
    size = shape[-1]
    pipe.send([])
    while True:
        try:
            block, tasks = pipe.recv()
        except (EOFError, OSError):
            return
        failures: Failures = []
        for slot, file, where in tasks:
            try:
                memory[block, slot] = decode(file, size, where).transpose(2, 0, 1)
            except UserError as error:
                memory[block, slot] = 0
                failures.append((slot, str(error)))
        with contextlib.suppress(OSError):
            pipe.send(failures)
