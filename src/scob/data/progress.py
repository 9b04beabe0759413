"""How a long task reports its progress."""

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True)
class NamedProgress:
    """The progress of one part of a task that has several, each with a name; `report(name, done, total)` shows it."""

    report: Callable[[str, int, int], None]
    name: str

    def __call__(self, done: int, total: int) -> None:
        self.report(self.name, done, total)


def part(progress: Progress | None, name: str) -> Progress | None:
    """The progress of the next part of a task, which begins now; a plain progress function stays as it is."""
    if not isinstance(progress, NamedProgress):
        return progress
    progress.report(name, 0, 0)
    return NamedProgress(progress.report, name)
