"""A bar on stderr, where a person is looking at one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scob.cli.console import err


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total); nothing is drawn where stderr is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def counted(number: int, thing: str, things: str | None = None) -> str:
    """'1 image', '2 images'."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
