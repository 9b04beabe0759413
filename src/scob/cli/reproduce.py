"""`scob reproduce NAME`: the paper's tables and figures, one command each, with the paper's numbers beside ours."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from scob.training import events


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("reproduce", help="Make a table or figure of the paper; --list names them and says what each costs.")(
        reproduce
    )


def reproduce(
    name: str = typer.Argument("", help="A table or figure, or 'all'; see --list."),
    settings: list[str] = typer.Argument(None, metavar="[KEY=VALUE]...", help="Settings, as in train.batch=16."),
    data: list[str] = typer.Option(["scenes"], help="A data set; some tables take several, each with its --data."),
    backbone: str = typer.Option("", help="Hub name, folder or ResNet file; for scenes the embedded one."),
    seeds: int = typer.Option(1, min=1, help="Runs of each row."),
    epochs: int = typer.Option(None, min=1, help="Epochs of each run."),
    out: Path = typer.Option(Path("reproduction"), help="Where runs and results go; finished runs in it are reused."),
    config: Path = typer.Option(None, help="A settings file all runs start from."),
    paper_parity: bool = typer.Option(
        False, "--paper-parity", help="Choose the epoch on the reported split itself, as the field does."
    ),
    backbone_file: list[str] = typer.Option(
        None, metavar="NAME=FILE", help="Weights of a row of table-contrastive: detco=, soco=, up-detr=."
    ),
    methods: str = typer.Option("", help="table-main: only these methods (and ROLE, Scob, full), as in an,ll-r."),
    show: bool = typer.Option(False, "--list", help="Name every table and figure, what it needs and costs."),
) -> None:
    """Run what is missing, then write Markdown, CSV and JSON, or PNG and SVG."""
    from scob.cli.console import err, escape
    from scob.errors import UserError
    from scob.studies.reproduce.registry import REPRODUCTIONS
    from scob.studies.reproduce.registry import reproduce as make
    from scob.training.stopping import Interrupted

    if show or not name:
        list_all()
        if not name and not show:
            raise UserError("name a table or figure: scob reproduce NAME --data SOURCE")
        return
    files: dict[str, str] = {}
    for word in backbone_file or []:
        key, equals, path = word.partition("=")
        if not equals or not path:
            raise UserError(f"--backbone-file {word}: write NAME=FILE, as in detco=detco.pth")
        files[key] = path
    with Display() as display:
        for each in REPRODUCTIONS if name == "all" else [name]:
            try:
                written = make(
                    each, data, out=out, backbone=backbone or None, seeds=seeds, epochs=epochs, config=config,
                    overrides=settings or [], paper_parity=paper_parity, backbone_files=files,
                    only_methods=[m for m in methods.split(",") if m], listen=display,
                )  # fmt: skip
            except Interrupted as stop:
                err.print("Stopped; what is done is kept: the same command goes on from here.", highlight=False)
                raise typer.Exit(stop.code) from None
            if display.first:
                show_result(written)
                told = escape("Written: " + ", ".join(str(path) for path in written))
                err.print(told, highlight=False, soft_wrap=True)


def list_all() -> None:
    """What there is, what it needs, how many runs it takes."""
    from rich.table import Table

    from scob.cli.console import out
    from scob.studies.reproduce.registry import REPRODUCTIONS, SCENE_RUN_MINUTES, costs

    listed = Table(title="Tables and figures of the paper", title_justify="left", header_style="bold")
    listed.add_column("name", no_wrap=True)
    listed.add_column("runs", justify="right")
    listed.add_column("minutes", justify="right")
    listed.add_column("shows; needs")
    for name, entry in REPRODUCTIONS.items():
        minutes = max(1, round(costs(name) * SCENE_RUN_MINUTES))
        listed.add_row(name, f"{costs(name)}", f"{minutes}", f"{entry.shows}; [dim]{entry.needs}[/]")
    out.print(listed)
    out.print(
        "Runs are for one seed and one data set, minutes for scenes on 2 cores, both without reuse: "
        "in one --out no run is made twice.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def show_result(written: list[Path]) -> None:
    """Print the Markdown that was written."""
    from rich.markdown import Markdown

    from scob.cli.console import out

    for path in written:
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            out.print(Markdown(text) if out.is_terminal else text, highlight=False, markup=False, soft_wrap=True)


class Display:
    """Progress of the runs on stderr: a bar for the run at hand, a line for each that is done."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        from scob.cli.console import err

        self.first = os.environ.get("RANK", "0") == "0"  # of `accelerate launch`
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[mAP]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=err, transient=True, disable=not self.first)
        self.task = self.bar.add_task("starting", total=None, mAP="")
        self.total = self.number = 0

    def __enter__(self) -> "Display":
        self.bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.__exit__(*error)

    def __call__(self, event: "events.Event") -> None:
        """Listen to a study and its runs."""
        from scob.training import events

        match event:
            case events.RunsPlanned(runs):
                self.total, self.number = runs, 0
            case events.RunBegins(name, reused):
                self.number += 1
                what = f"{self.number}/{self.total} {name}"
                self.bar.update(self.task, description=what, total=None, completed=0, mAP="")
                self.line(what + (", reused" if reused else ""))
            case events.StepLogged(step, steps):
                self.bar.update(self.task, completed=step, total=steps)
            case events.EpochMeasured(epoch=epoch, measured={"mAP": float(mean)}):
                self.bar.update(self.task, mAP=f"epoch {epoch + 1}: mAP {mean:.1f}")
            case events.CheckpointDamaged(message) | events.Note(message):
                self.line(message)

    def line(self, text: str) -> None:
        from scob.cli.console import escape

        if self.first:
            self.bar.console.print(escape(text), highlight=False, soft_wrap=True)
