"""Where verbs print: results to stdout, everything else to stderr, so that results can be piped."""

import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from scob.errors import printable
from scob.launch import launch

MEASURES_MAP = (
    "mAP: how well the scores put images that show a class before the others, over all classes; 100 is perfect."
)
MEASURES = (
    f"{MEASURES_MAP} OF1 and CF1: how well the named labels match the true ones (precision and recall in one number), "
    "over all labels and as a mean over classes."
)

out = Console(soft_wrap=False)
err = Console(stderr=True)


def complain(message: str) -> None:
    """Print an error to stderr."""
    try:
        err.print(f"[bold red]scob:[/] {escape(message)}", soft_wrap=True, highlight=False)
    except Exception:  # printing in colour needs more memory than there may be left
        sys.stderr.write(f"scob: {printable(message)}\n")


def note(message: str) -> None:
    """Print one line about the work to stderr, as it is: no markup, no wrapping."""
    err.print(printable(message), soft_wrap=True, highlight=False, markup=False)


def escape(text: str) -> str:
    """Text that rich prints unchanged, without control characters."""
    from rich.markup import escape as rich_escape

    return rich_escape(printable(text))


def command(*words: object) -> str:
    """`scob WORDS...`, quoted so that it can be copied into a shell."""
    return shlex.join(["scob", *map(str, words)])


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], best: Collection[tuple[int, int]] = ()
) -> Table:
    """A table whose first column is text and whose other columns are right-aligned; `best` cells are bold."""
    drawn = Table(title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        drawn.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    for number, row in enumerate(rows):
        cells = [escape(cell if isinstance(cell, str) else f"{cell}") for cell in row]
        drawn.add_row(*(f"[bold]{cell}[/]" if (number, c) in best else cell for c, cell in enumerate(cells)))
    return drawn


def best_cells(values: Sequence[Sequence[float | None]], first_column: int = 1) -> set[tuple[int, int]]:
    """The cells with the highest value of each column, where rows differ: (row, column of the table)."""
    best = set()
    for c in range(len(values[0]) if values else 0):
        known = [row[c] for row in values if row[c] is not None and row[c] == row[c]]
        if len(set(known)) > 1:
            best |= {(n, c + first_column) for n, row in enumerate(values) if row[c] == max(known)}  # type: ignore[type-var]
    return best


def sentence(words: str) -> str:
    """With a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def counted(number: int, thing: str, things: str | None = None) -> str:
    """'1 image', '2 images'."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def what_was_named(named: Mapping[str, int], images: int) -> str:
    """', 1.7 labels per image; most frequent: person (120), dog (31)'; `named` counts the images of each class."""
    if not images:
        return ""
    most = ", ".join(f"{name} ({number:,})" for name, number in list(named.items())[:3])
    return f", {sum(named.values()) / images:.1f} labels per image" + (f"; most frequent: {most}" if most else "")


def duration(seconds: float) -> str:
    """'40 seconds', '12 minutes', '3.5 hours'."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def prints() -> bool:
    """Whether this process prints: the only one, or the first that `accelerate launch` or `torchrun` started."""
    return launch().first
