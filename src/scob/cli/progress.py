"""A progress bar on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager

from scob.cli.console import err
from scob.data.progress import NamedProgress


@contextmanager
def bar(what: str, shown: bool = True) -> Iterator[NamedProgress]:
    """A function to call with (done, total); parts of the work have their own names. Draws only on a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    visible = shown and err.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not visible) as progress:
        task = progress.add_task(what, total=None)
        current = what

        def report(name: str, done: int, total: int) -> None:
            nonlocal current
            if name != current:
                progress.reset(task, description=name, total=None)
                current = name
            progress.update(task, completed=done, total=total or None)

        yield NamedProgress(report, what)
