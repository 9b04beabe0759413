"""`scob compare METHOD... --data SOURCE`: the methods side by side on the same observed labels."""

from pathlib import Path
from typing import Any

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare", help="Train methods on the same labels and rank them; --list names the methods.")(compare)


def compare(
    words: list[str] = typer.Argument(
        None, metavar="METHOD... [KEY=VALUE]...", help="Methods, and settings as in train.epochs=3."
    ),
    data: str = typer.Option("", help="A folder, a label table, or 'scenes'."),
    config: Path = typer.Option(None, help="A settings file all runs start from; for scenes the demo's."),
    backbone: str = typer.Option("", help="Hub name, folder or ResNet file; for scenes the embedded one."),
    labels: str = typer.Option("", help="What is observed: single, partial:0.1, full or given."),
    seeds: int = typer.Option(1, min=1, help="Runs of each method, each with its own draw of the labels."),
    top: int = typer.Option(0, min=0, help="Only the best so many (and role, full) run on the seeds after the first."),
    out: Path = typer.Option(Path("comparison"), help="Where runs and results go; runs in it are reused."),
    methods_folder: list[Path] = typer.Option(None, help="Look for methods of your own in this folder."),
    show: bool = typer.Option(False, "--list", help="Name every method and what it does."),
) -> None:
    """Run what is missing, print the table, write Markdown, CSV, JSON, PNG and SVG."""
    from scob import methods
    from scob.cli.console import err, escape
    from scob.cli.reproduce import Display
    from scob.config import resolve
    from scob.errors import UserError
    from scob.studies.compare import NAME
    from scob.studies.compare import compare as run
    from scob.studies.reproduce.registry import settings_for
    from scob.training.stopping import Interrupted

    for folder in methods_folder or []:
        methods.register_folder(folder)
    if show:
        list_methods()
        return
    names = [word for word in words or [] if "=" not in word]
    if not names:
        raise UserError("name the methods to compare, as in scob compare role scob full; --list names them all")
    overrides = [*_observed(labels), *(word for word in words if "=" in word)]
    if not data and config is None:
        raise UserError("say what to compare on: --data SOURCE (a folder, a label table, or 'scenes')")
    if not data:
        from scob.config import read_yaml

        data = str(read_yaml(config).get("data", {}).get("source", "scenes"))
    for name in names:
        methods.find(name)
    settings = resolve(
        settings_for(data, config, overrides, backbone or None), "on the command line", methods.section_names()
    )

    with Display() as display:
        try:
            rows = run(names, settings, out, seeds, display, top)
        except Interrupted as stop:
            err.print("Stopped; what is done is kept: the same command goes on from here.", highlight=False)
            raise typer.Exit(stop.code) from None
    if display.first:
        print_rows(rows)
        written = ", ".join(str(out / f"{NAME}.{ending}") for ending in ("md", "csv", "json", "png", "svg"))
        err.print(escape(f"Written: {written}"), highlight=False, soft_wrap=True)


def _observed(labels: str) -> list[str]:
    """`partial:0.1` as settings."""
    from scob.errors import UserError

    if not labels:
        return []
    kind, _, fraction = labels.partition(":")
    if kind not in ("single", "partial", "full", "given") or (fraction and kind != "partial"):
        raise UserError(f"--labels {labels}: write single, partial:0.1, full or given")
    return [f"labels.kind={kind}", *([f"labels.fraction={fraction}"] if fraction else [])]


def print_rows(rows: list[dict[str, Any]]) -> None:
    """The table, best first."""
    from scob.cli.console import out, table

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
    heads = ("method", "name", "rank", "mAP", "ROLE to full closed", "images/s", "s/epoch")
    out.print(table("The same images, the same observed labels", heads, lines))


def list_methods() -> None:
    """Every method: its name, its title, the first line of its file's docstring."""
    import sys

    from rich.table import Table

    from scob import methods
    from scob.cli.console import escape, out

    listed = Table(title="Methods", title_justify="left", header_style="bold")
    listed.add_column("name", no_wrap=True)
    listed.add_column("title", no_wrap=True)
    listed.add_column("what it does")
    for name in methods.names():
        kind = methods.find(name)
        told = (sys.modules[kind.__module__].__doc__ or kind.__doc__ or "").strip().splitlines()
        listed.add_row(name, escape(kind.title), escape(told[0] if told else ""))
    out.print(listed)
