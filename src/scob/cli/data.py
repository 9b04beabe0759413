"""`scob data`: describe, check and download data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scob.cli.console import counted, err, note, out, table
from scob.cli.options import AsJson, ReaderName, Separator, check_difficult
from scob.cli.progress import bar

if TYPE_CHECKING:
    from scob.data.split import ReadOptions

Source = Annotated[str, typer.Argument(help="Folder, label table or export (CSV, JSON, Parquet), or 'scenes'.")]
SplitName = Annotated[str, typer.Option("--split", help="Read only this split.")]
Difficult = Annotated[
    str, typer.Option(help="How to treat VOC objects marked difficult: positive, negative or ignore.")
]


def register(app: typer.Typer) -> None:
    """Add `scob data` and its commands."""
    data = typer.Typer(
        help="Describe, check, report on and download data (Python: scob.describe, scob.check, scob.data_report, "
        "scob.download).",
        no_args_is_help=True,
    )
    data.command("describe")(describe)
    data.command("check")(check)
    data.command("report")(report)
    data.command("download")(download)
    app.add_typer(data, name="data")


def describe(
    source: Source,
    split: SplitName = "",
    format: ReaderName = "auto",
    difficult: Difficult = "negative",
    grid: Annotated[Path | None, typer.Option(help="Also write a PNG of some images with their labels.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unreadable files and list them.")] = False,
    separator: Separator = "auto",
    as_json: AsJson = False,
) -> None:
    """Count the images and labels of each split."""
    from scob.data.describe import describe as count
    from scob.data.describe import picture_grid
    from scob.data.readers import open_split, taken_as

    options = _read_options(difficult, skip_bad, separator)
    note(f"taken as: {taken_as(source, options, format)}")
    description = count(source, split or None, options, format)
    splits = description.splits
    if grid is not None:
        picture_grid(open_split(source, splits[0].name, options, description.format), grid)
        note(f"wrote {grid}")
    if as_json:
        print(json.dumps(description.as_dict(), indent=1, ensure_ascii=False))
        return
    names = [each.name for each in splits]
    lines: list[tuple[str, ...]] = []
    for key, form in (
        ("images", "{:,}"),
        ("positives per image", "{:.3f}"),
        ("images without a positive", "{:,}"),
        ("observed positive", "{:,}"),
        ("observed negative", "{:,}"),
        ("unknown share", "{:.1%}"),
    ):
        lines.append((key, *(form.format(each.statistics[key]) for each in splits)))
    lines.append(("object masks", *("yes" if each.masks else "no" for each in splits)))
    out.print(table(f"{source} ({description.format}, {len(description.classes)} classes)", ("", *names), lines))
    counts = [
        (name, *(f"{each.statistics['per class'][name]['positive']:,}" for each in splits))
        for name in description.classes
    ]
    out.print(table("positives per class", ("class", *names), counts))
    for each in splits:
        for remark in each.notes:
            out.print(f"{each.name}: {remark}", highlight=False, markup=False)
        for reason in each.skipped:
            note(f"skipped: {reason}")


def check(
    source: Source,
    split: SplitName = "",
    format: ReaderName = "auto",
    difficult: Difficult = "negative",
    workers: Annotated[int, typer.Option(min=0, help="Number of decoding processes; 0 means one per core.")] = 0,
    separator: Separator = "auto",
    as_json: AsJson = False,
) -> None:
    """Decode every image and list the problems by file and row. Exits with 1 if there are any."""
    from scob.data.describe import check as inspect
    from scob.data.readers import taken_as

    options = _read_options(difficult, True, separator)
    note(f"taken as: {taken_as(source, options, format)}")
    with bar("decoding") as progress:
        good, problems = inspect(source, split or None, options, format, workers or None, progress)
    if as_json:
        print(json.dumps({"good": good, "problems": problems}, indent=1, ensure_ascii=False))
    else:
        for problem in problems:
            out.print(problem, highlight=False, markup=False, soft_wrap=True)
        out.print(f"{counted(good, 'good image')}, {counted(len(problems), 'problem')}", highlight=False)
        if problems:
            note("scob train --images leaves out what cannot be read; --skip-bad is for data describe and evaluate")
    if problems:
        raise typer.Exit(1)


def report(
    source: Source,
    page: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("data-report.html"),
    format: ReaderName = "auto",
    difficult: Difficult = "negative",
    separator: Separator = "auto",
) -> None:
    """Write one page about the data: counts, duplicates, leakage, broken and dark images, and what to do about each."""
    from scob.data.readers import taken_as
    from scob.data.report import data_report

    options = _read_options(difficult, True, separator)
    note(f"taken as: {taken_as(source, options, format)}")
    with bar("looking at images") as progress:
        found = data_report(source, page, options, format, progress)
    rows = [(finding.what, f"{len(finding.images):,}") for finding in found.findings]
    out.print(table(f"{sum(map(len, found.splits)):,} images", ("found", "images"), rows))
    note(f"wrote {page}")


def download(
    name: Annotated[str, typer.Argument(help="Benchmark: voc2007, voc2012, coco2014 or cub.")],
    folder: Annotated[Path, typer.Option("--to", help="Folder to unpack it into.")] = Path("data"),
    keep: Annotated[bool, typer.Option(help="Keep the archives after unpacking them.")] = False,
) -> None:
    """Download a benchmark from its official address, verify and unpack it. Resumes an interrupted download."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from scob.data.download import download as fetch

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bars:
        tasks = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done, total=total or None)

        path = fetch(name, folder, progress, keep)
    out.print(str(path), highlight=False, markup=False, soft_wrap=True)


def _read_options(difficult: str, skip_bad: bool, separator: str) -> "ReadOptions":
    from scob.data.split import ReadOptions

    check_difficult(difficult)
    return ReadOptions(difficult=difficult, skip_bad=skip_bad, separator=separator)
