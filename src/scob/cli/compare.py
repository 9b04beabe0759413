"""`scob compare METHOD... --data SOURCE`: rank methods trained on the same observed labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from scob.cli.console import escape, note, out, table
from scob.cli.options import with_options
from scob.errors import UserError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "compare",
        help="Train several methods on the same labels and rank them; --list shows them (Python: scob.compare).",
    )(with_options(compare))


@dataclass(frozen=True)
class CompareOptions:
    """The options of `scob compare`."""

    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD... [KEY=VALUE]...", help="Methods, then settings such as train.epochs=3."),
    ] = None
    data: Annotated[str, typer.Option(help="Folder, label table, or 'scenes'.")] = ""
    config: Annotated[
        Path | None, typer.Option(help="Settings file for all runs; for scenes, the demo's by default.")
    ] = None
    backbone: Annotated[
        str, typer.Option(help="Hub name, folder or ResNet file; by default, for scenes, the embedded backbone.")
    ] = ""
    labels: Annotated[str, typer.Option(help="Observed labels: single, partial:0.1, full or given.")] = ""
    seeds: Annotated[int, typer.Option(min=1, help="Runs per method; each seed draws its own labels.")] = 1
    top: Annotated[
        int,
        typer.Option(
            min=0, help="After the first seed, continue with only role, full and the N best methods; 0 means all."
        ),
    ] = 0
    out: Annotated[Path, typer.Option(help="Folder for runs and results; finished runs in it are reused.")] = Path(
        "comparison"
    )
    methods_folder: Annotated[list[Path] | None, typer.Option(help="Folder with your own methods; repeatable.")] = None
    show: Annotated[bool, typer.Option("--list", help="List every method and what it does.")] = False


def compare(options: CompareOptions) -> None:
    """Run what is missing, print the table, write Markdown, CSV, JSON, PNG and SVG."""
    from scob import methods
    from scob.cli.study_live import StudyLive
    from scob.config import read_yaml, resolve
    from scob.studies.compare import NAME
    from scob.studies.compare import compare as run
    from scob.studies.reproduce.registry import settings_for
    from scob.training.stopping import Interrupted

    o = options
    for folder in o.methods_folder or []:
        methods.register_folder(folder)
    if o.show:
        list_methods()
        return
    words = o.words or []
    names = [word for word in words if "=" not in word]
    if not names:
        raise UserError("name the methods to compare, as in scob compare role scob full; --list shows all methods")
    overrides = [*label_settings(o.labels), *(word for word in words if "=" in word)]
    if not o.data and o.config is None:
        raise UserError("name the data to compare on: --data SOURCE (a folder, a label table, or 'scenes')")
    source = o.data
    if not source:
        assert o.config is not None
        source = str(read_yaml(o.config).get("data", {}).get("source", "scenes"))
    for name in names:
        methods.find(name)
    settings = resolve(
        settings_for(source, o.config, overrides, o.backbone or None), "on the command line", methods.section_names()
    )

    with StudyLive() as display:
        try:
            rows = run(names, settings, o.out, o.seeds, display, o.top)
        except Interrupted as stop:
            note("Stopped. Finished work is kept; run the same command to continue.")
            raise typer.Exit(stop.code) from None
    if display.first:
        print_rows(rows)
        note("Written: " + ", ".join(str(o.out / f"{NAME}.{ending}") for ending in ("md", "csv", "json", "png", "svg")))


def label_settings(labels: str) -> list[str]:
    """`partial:0.1` as settings."""
    if not labels:
        return []
    kind, _, fraction = labels.partition(":")
    if kind not in ("single", "partial", "full", "given") or (fraction and kind != "partial"):
        raise UserError(f"--labels {labels}: write single, partial:0.1, full or given")
    return [f"labels.kind={kind}", *([f"labels.fraction={fraction}"] if fraction else [])]


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table, best method first."""

    def shown(value: float | None, decimals: int, suffix: str = "") -> str:
        return "-" if value is None else f"{value:.{decimals}f}{suffix}"

    lines = []
    for number, row in enumerate(rows, 1):
        spread = "" if row["deviation"] is None else f" ± {row['deviation']:.1f}"
        lines.append(
            (
                row["title"], row["name"], f"{number}", shown(row["mAP"], 1) + spread, shown(row["share"], 0, "%"),
                shown(row["images per second"], 0), shown(row["seconds per epoch"], 2),
            )
        )  # fmt: skip
    heads = ("method", "name", "rank", "mAP", "gap closed (ROLE to full)", "images/s", "s/epoch")
    out.print(table("The same images, the same observed labels", heads, lines))


def list_methods() -> None:
    """Every method: its name, its title and the first line of its class's docstring (else its file's)."""
    import sys

    from rich.table import Table

    from scob import methods

    listing = Table(title="Methods", title_justify="left", header_style="bold")
    listing.add_column("name", no_wrap=True)
    listing.add_column("title", no_wrap=True)
    listing.add_column("what it does")
    for name in methods.names():
        kind = methods.find(name)
        docstring = kind.__doc__ or sys.modules[kind.__module__].__doc__ or ""
        summary = docstring.strip().partition("\n")[0]
        listing.add_row(name, escape(kind.title), escape(summary))
    out.print(listing)
