"""Where verbs print: results to stdout, everything else to stderr, so that output can be piped."""

import shlex
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

out = Console(soft_wrap=False)
err = Console(stderr=True)


def complain(message: str) -> None:
    """One sentence for a person, on stderr."""
    err.print(f"[bold red]scob:[/] {escape(message)}", soft_wrap=True, highlight=False)


def escape(text: str) -> str:
    """Text that rich will print as it is."""
    from rich.markup import escape as rich_escape

    return rich_escape(text)


def command(*words: object) -> str:
    """`scob WORDS...` as it can be copied into a shell, whatever the names in it hold."""
    return shlex.join(["scob", *map(str, words)])


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose first column is text and whose other columns are right-aligned."""
    made = Table(title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        made.add_row(*(escape(cell if isinstance(cell, str) else f"{cell}") for cell in row))
    return made
