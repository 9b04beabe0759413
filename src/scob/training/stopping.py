"""SIGTERM and Ctrl-C: finish the step, save, end; where there is nothing to save yet, end at once."""

import signal
from types import FrameType, TracebackType


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
