"""SIGTERM and Ctrl-C: finish the step, save, end. If there is nothing to save yet, end at once."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType

import torch

from scob.errors import UserError
from scob.parallel import OtherProcessFailed, Processes, is_broken_connection, lost_peer

LOST = ".process-lost"
AGREE_EVERY = 10  # steps on a GPU; asking more often would make the host wait for it


class Interrupted(Exception):
    """The run was asked to stop and has saved everything; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__("interrupted")
        self.code = code


class StopRequest:
    """A context that catches both signals. It works only in the main thread of a process."""

    def __init__(self) -> None:
        self.number = 0
        self.saves_first = False  # whether the training loop will see `number` and save before it ends
        self.reporting = False  # whether this process is about to print why it ends: a SIGTERM must not prevent that
        self.heard: Callable[[], None] = lambda: None  # answers the person who pressed Ctrl+C
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "StopRequest":
        try:
            self._before = {n: signal.signal(n, self._ask) for n in (signal.SIGTERM, signal.SIGINT)}
        except ValueError:  # not the main thread
            self._before = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            ignored = self.reporting and number == signal.SIGTERM
            signal.signal(number, signal.SIG_IGN if ignored else handler)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if not self.saves_first or (self.number == signal.SIGINT == number):  # a second Ctrl-C does not wait
            raise Interrupted(128 + number)
        self.number = number
        self.heard()


def agree(processes: Processes, step: int, stop: int, late: bool) -> tuple[int, bool]:
    """Any signal a process has received, and whether rank 0 (clocks differ) finds a checkpoint due."""
    p = processes
    if p.count == 1:
        return stop, late
    if p.device.type == "cuda" and step % AGREE_EVERY:
        return 0, False
    flags = torch.tensor([float(stop == 15), float(stop == 2), float(late and p.first)], device=p.device)
    terminated, interrupted, late_there = (v > 0 for v in p.total(flags).tolist())
    return 15 if terminated else 2 if interrupted else 0, late_there


class PeerLost(UserError):
    """Another process of the run died without an error message."""


@contextlib.contextmanager
def watching_peers(processes: Processes, folder: Path, stop: StopRequest) -> Iterator[None]:
    """If another process dies and the connection breaks, print one error message, from one process.

    The remaining processes cannot communicate: the first to create the file LOST in the run `folder` prints the
    message. Meanwhile the launcher sends all of them SIGTERM, which this one ignores.
    """
    try:
        yield
    except RuntimeError as error:
        if processes.count == 1 or not is_broken_connection(error):
            raise
        with contextlib.suppress(FileExistsError):
            (folder / LOST).touch(exist_ok=False)
            stop.reporting = True
            raise PeerLost(
                f"{lost_peer(processes.count)}; the last checkpoint is kept: continue, with any number of processes, "
                f"with --resume {folder}"
            ) from error
        raise OtherProcessFailed from None
