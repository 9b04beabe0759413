"""A progress bar on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scob.cli.console import err


@contextmanager
def bar(what: str, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total). Draws nothing if stderr is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not (shown and err.is_terminal)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
