"""SIGTERM and Ctrl-C: finish the step, save, end; where there is nothing to save yet, end at once."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from scob.errors import UserError
from scob.parallel import OtherProcessFailed, Processes

LOST = ".process-lost"


class Interrupted(Exception):
    """The run was asked to stop and has saved everything; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__("interrupted")
        self.code = code


class StopRequest:
    """Listens for the two signals while it is entered; only the main thread of a process can."""

    def __init__(self) -> None:
        self.number = 0
        self.later = False  # whether somebody will look at `number` and save first
        self.last_words = False  # whether this process is about to say why it ends, which a SIGTERM must not cut off
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
            spoken = self.last_words and number == signal.SIGTERM
            signal.signal(number, signal.SIG_IGN if spoken else handler)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if not self.later or (self.number == signal.SIGINT == number):  # a second Ctrl-C does not wait
            raise Interrupted(128 + number)
        self.number = number


class PeerLost(UserError):
    """Another process of the run is gone, without a word."""


@contextlib.contextmanager
def watching_peers(processes: Processes, folder: Path, stop: StopRequest) -> Iterator[None]:
    """Turn a connection that broke, because another process died, into one sentence said by one process.

    Those that are left cannot talk to each other: the first to leave a mark in the run `folder` speaks. What
    launched them ends them meanwhile with SIGTERM, for which that one does not stop any more.
    """
    try:
        yield
    except RuntimeError as error:
        if processes.count == 1 or not _is_broken_connection(error):
            raise
        with contextlib.suppress(FileExistsError):
            (folder / LOST).touch(exist_ok=False)
            stop.last_words = True
            raise PeerLost(
                f"one of the {processes.count} processes of this run died or stopped answering, so all of them stop; "
                f"the last checkpoint is kept: go on, with any number of processes, with --resume {folder}"
            ) from error
        raise OtherProcessFailed from None


def _is_broken_connection(error: RuntimeError) -> bool:
    """torch reports a lost peer as a plain RuntimeError (gloo) or a DistError; the words are all there is."""
    words = ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "timed out", "socket", "peer")
    return type(error).__name__.startswith("Dist") or any(word in str(error).lower() for word in words)
