"""How much longer something will take, from the pace so far."""

import time
from collections import deque
from collections.abc import Callable
from statistics import fmean

RECENT = 40  # steps


class TimeLeft:
    """The time left of a run: the mean of its recent steps, and what evaluations added to each step so far.

    The first epochs of a run may be cheaper than the others. Until it has settled, an estimate made before (it would
    end at `expected`) counts if it is longer.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, expected: float | None = None) -> None:
        self.clock, self.expected, self.settled = clock, expected, False
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.last = clock()
        self.between, self.steps, self.since_evaluation = 0.0, 0, 0

    def step(self, settled: bool = True) -> None:
        """A step is done."""
        now = self.clock()
        if self.steps == 1 or settled != self.settled:  # the first step starts workers and warms up
            self.recent.clear()
        self.settled = settled
        self.recent.append(now - self.last)
        self.steps, self.since_evaluation, self.last = self.steps + 1, self.since_evaluation + 1, now

    def evaluated(self) -> None:
        """An evaluation, which took the time since the last step, is done."""
        now = self.clock()
        if self.since_evaluation:
            self.between = (now - self.last) / self.since_evaluation
        self.since_evaluation, self.last = 0, now

    def seconds(self, steps: int) -> float | None:
        """The time that so many more steps will take; None before the first."""
        if not self.recent:
            return None
        left = steps * (fmean(self.recent) + self.between)
        return left if self.settled or self.expected is None else max(left, self.expected - self.clock())


def clock_text(seconds: float | None) -> str:
    """'0:07', '12:30', '3:05:00'; '' if it is not known."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
