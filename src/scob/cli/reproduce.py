"""`scob reproduce NAME`: the paper's tables and figures, one command each, with the paper's numbers next to ours."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import note, out
from scob.cli.options import with_options
from scob.errors import UserError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "reproduce", help="Reproduce a table or figure of the paper; --list shows all of them (Python: scob.reproduce)."
    )(with_options(reproduce))


@dataclass(frozen=True)
class ReproduceOptions:
    """The options of `scob reproduce`."""

    name: Annotated[str, typer.Argument(help="Table or figure, or 'all'; see --list.")] = ""
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings such as train.batch=16.")
    ] = None
    data: Annotated[list[str], typer.Option(help="Data set; repeatable, for tables that take several.")] = field(
        default_factory=lambda: ["scenes"]
    )
    backbone: Annotated[
        str, typer.Option(help="Hub name, folder or ResNet file; by default, for scenes, the embedded backbone.")
    ] = ""
    seeds: Annotated[int, typer.Option(min=1, help="Runs per row.")] = 1
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs per run.")] = None
    out: Annotated[Path, typer.Option(help="Folder for runs and results; finished runs in it are reused.")] = Path(
        "reproduction"
    )
    config: Annotated[Path | None, typer.Option(help="Settings file for all runs.")] = None
    paper_parity: Annotated[
        bool,
        typer.Option("--paper-parity", help="Choose the epoch on the reported split, as is common practice."),
    ] = False
    backbone_file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE", help="Weights for a row of table-contrastive; NAME is detco, soco or up-detr."
        ),
    ] = None
    methods: Annotated[
        str,
        typer.Option(
            help="For table-main: only these methods (comma-separated, e.g. an,ll-r), plus ROLE, Scob and full labels."
        ),
    ] = ""
    show: Annotated[bool, typer.Option("--list", help="List every table and figure with what it needs and costs.")] = (
        False
    )


def reproduce(options: ReproduceOptions) -> None:
    """Run what is missing, then write Markdown, CSV and JSON, and for figures PNG and SVG."""
    from scob.cli.study_live import StudyLive

    o = options
    if o.show or not o.name:
        list_all()
        if not o.show:
            raise UserError("name a table or figure: scob reproduce NAME --data SOURCE")
        return
    files = backbone_files(o.backbone_file or [])
    with StudyLive() as display:
        from scob.studies.reproduce.registry import REPRODUCTIONS
        from scob.studies.reproduce.registry import reproduce as make
        from scob.training.stopping import Interrupted

        for name in REPRODUCTIONS if o.name == "all" else [o.name]:
            try:
                written = make(
                    name, o.data, out=o.out, backbone=o.backbone or None, seeds=o.seeds, epochs=o.epochs,
                    config=o.config, overrides=o.settings or [], paper_parity=o.paper_parity, backbone_files=files,
                    only_methods=[m for m in o.methods.split(",") if m], listen=display,
                )  # fmt: skip
            except Interrupted as stop:
                note("Stopped. Finished work is kept; run the same command to continue.")
                raise typer.Exit(stop.code) from None
            if display.first:
                with display.hidden():
                    print_markdown(written)
                note("Written: " + ", ".join(str(path) for path in written))


def backbone_files(words: Sequence[str]) -> dict[str, str]:
    """`detco=detco.pth` -> {"detco": "detco.pth"}."""
    files: dict[str, str] = {}
    for word in words:
        key, equals, path = word.partition("=")
        if not equals or not path:
            raise UserError(f"--backbone-file {word}: write NAME=FILE, as in detco=detco.pth")
        files[key] = path
    return files


def list_all() -> None:
    """Every table and figure: how many runs it takes, how long, what it shows and needs."""
    from rich.table import Table

    from scob.studies.reproduce.registry import REPRODUCTIONS, SCENE_RUN_MINUTES, costs

    listing = Table(title="Tables and figures of the paper", title_justify="left", header_style="bold")
    listing.add_column("name", no_wrap=True)
    listing.add_column("runs", justify="right")
    listing.add_column("minutes", justify="right")
    listing.add_column("shows")
    listing.add_column("needs")
    for name, entry in REPRODUCTIONS.items():
        minutes = max(1, round(costs(name) * SCENE_RUN_MINUTES))
        listing.add_row(name, f"{costs(name)}", f"{minutes}", entry.shows, f"[dim]{entry.needs}[/]")
    out.print(listing)
    out.print(
        "Runs are counted for one seed and one data set, minutes for scenes on 2 cores. "
        "Tables and figures with the same --out share their runs.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def print_markdown(written: Sequence[Path]) -> None:
    """Print the Markdown files among those written."""
    from rich.markdown import Markdown

    for path in written:
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            out.print(Markdown(text) if out.is_terminal else text, highlight=False, markup=False, soft_wrap=True)
