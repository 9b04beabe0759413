"""The time that a run takes: all of it, over all the times it was started, and that of its steps."""

import time


class Clock:
    """`seconds` counts everything since `began`, and what earlier parts of the run took (`before`).

    `images_per_second` covers the steps since it was last asked, without the evaluations between them.
    """

    def __init__(self) -> None:
        self.began, self.before = time.monotonic(), 0.0
        self._since: float | None = None
        self._steps = 0

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began

    def start(self) -> None:
        """Steps begin now, if they have not begun before."""
        if self._since is None:
            self._since = time.monotonic()

    def step(self) -> None:
        """One more step is done."""
        self._steps += 1

    def leave_out(self, since: float) -> None:
        """The time from `since` to now was not spent on steps."""
        if self._since is not None:
            self._since += time.monotonic() - since

    def images_per_second(self, batch: int) -> float:
        """The rate of the steps since the last call, for batches of `batch` images."""
        now = time.monotonic()
        rate = batch * self._steps / max(1e-9, now - (now if self._since is None else self._since))
        self._since, self._steps = now, 0
        return rate
