"""`scob data`: describe, check and download."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from scob.data.split import ReadOptions

SOURCE = typer.Argument(..., help="A folder, a label table (CSV, JSON lines), or 'scenes'.")
SPLIT = typer.Option("", "--split", help="Only this split.")
FORMAT = typer.Option("auto", "--format", help="auto|voc|coco|cub|table|folder|scenes")
DIFFICULT = typer.Option("negative", help="What a VOC object marked difficult counts as: positive|negative|ignore.")
JSON = typer.Option(False, "--json", help="Print JSON.")


def register(app: typer.Typer) -> None:
    """Add `scob data` and its commands."""
    data = typer.Typer(help="Look at data, check it, fetch it.", no_args_is_help=True)
    data.command("describe")(describe)
    data.command("check")(check)
    data.command("download")(download)
    app.add_typer(data, name="data")


def describe(
    source: str = SOURCE,
    split: str = SPLIT,
    format: str = FORMAT,
    difficult: str = DIFFICULT,
    grid: Path = typer.Option(None, help="Also write a PNG with some of the images and their labels."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave out, and list, what cannot be read."),
    as_json: bool = JSON,
) -> None:
    """Count images and labels, split by split."""
    from scob.cli.console import err, out, table
    from scob.data.describe import describe as count
    from scob.data.describe import picture_grid
    from scob.data.readers import open_split

    options = _options(difficult, skip_bad)
    found = count(source, split or None, options, format)
    if grid is not None:
        picture_grid(open_split(source, found.splits[0].name, options, found.format), grid)
        err.print(f"wrote {grid}", highlight=False, markup=False)
    if as_json:
        print(json.dumps(found.as_dict(), indent=1, ensure_ascii=False))
        return
    names = [each.name for each in found.splits]
    lines: list[tuple[str, ...]] = []
    for label, key, form in (
        ("images", "images", "{:,}"),
        ("positives per image", "positives per image", "{:.3f}"),
        ("images without a positive", "images without a positive", "{:,}"),
        ("observed positive", "observed positive", "{:,}"),
        ("observed negative", "observed negative", "{:,}"),
        ("unknown share", "unknown share", "{:.1%}"),
    ):
        lines.append((label, *(form.format(each.statistics[key]) for each in found.splits)))
    lines.append(("object masks", *("yes" if each.masks else "no" for each in found.splits)))
    out.print(table(f"{source} ({found.format}, {len(found.classes)} classes)", ("", *names), lines))
    counts = [
        (name, *(f"{each.statistics['per class'][name]['positive']:,}" for each in found.splits))
        for name in found.classes
    ]
    out.print(table("positives per class", ("class", *names), counts))
    for each in found.splits:
        for note in each.notes:
            out.print(f"{each.name}: {note}", highlight=False, markup=False)
        for reason in each.skipped:
            err.print(f"skipped: {reason}", highlight=False, markup=False, soft_wrap=True)


def check(
    source: str = SOURCE,
    split: str = SPLIT,
    format: str = FORMAT,
    difficult: str = DIFFICULT,
    workers: int = typer.Option(0, min=0, help="Decoding processes; 0: one a core."),
    as_json: bool = JSON,
) -> None:
    """Decode every image and list what is broken, by file and row. Exits with 1 if anything is."""
    from scob.cli.console import out
    from scob.data.describe import check as inspect

    with _bar("decoding") as progress:
        good, problems = inspect(source, split or None, _options(difficult, True), format, workers or None, progress)
    if as_json:
        print(json.dumps({"good": good, "problems": problems}, indent=1, ensure_ascii=False))
    else:
        for problem in problems:
            out.print(problem, highlight=False, markup=False, soft_wrap=True)
        out.print(f"{good:,} images are good; {len(problems):,} problems", highlight=False)
    if problems:
        raise typer.Exit(1)


def download(
    name: str = typer.Argument(..., help="voc2007|voc2012|coco2014|cub"),
    folder: Path = typer.Option(Path("data"), "--to", help="The folder to put it in."),
    keep: bool = typer.Option(False, help="Keep the archives after unpacking them."),
) -> None:
    """Fetch a benchmark from its official address: resumed where it stopped, checked, unpacked."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from scob.cli.console import err, out
    from scob.data.download import download as fetch

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bars:
        tasks = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done, total=total or None)

        place = fetch(name, folder, progress, keep)
    out.print(str(place), highlight=False, markup=False, soft_wrap=True)


def _options(difficult: str, skip_bad: bool) -> "ReadOptions":
    from scob.data.split import ReadOptions
    from scob.errors import UserError

    if difficult not in ("positive", "negative", "ignore"):
        raise UserError(f"--difficult is {difficult!r}, but it must be positive, negative or ignore")
    return ReadOptions(difficult=difficult, skip_bad=skip_bad)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import Progress

    from scob.cli.console import err

    with Progress(console=err, transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
