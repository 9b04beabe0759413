"""`scob recover RUN`: the labels that images are missing."""

from pathlib import Path

import typer

from scob.cli.console import command, err, escape, out, table
from scob.cli.progress import bar, counted
from scob.errors import UserError
from scob.files import free_path, named


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(help="Suggest the labels that images are missing, and take reviewed ones back (Python: scob.recover).")
    def recover(
        run: Path = typer.Argument(
            help="A run folder; with --images a model folder, with --import suggestions will do."
        ),
        images: list[str] = typer.Option(None, "--images", help="Suggest labels for these files or folders instead."),
        format: list[str] = typer.Option(
            None, "--format", "-f", help="csv|coco|labelstudio|fiftyone|cleanlab, beside what `scob review` reads."
        ),
        folder: Path = typer.Option(None, "--out", "-o", help="Where to write (RUN/recovered)."),
        minimum: float | None = typer.Option(
            None, "--min", min=0, max=1, help="Least confidence; else the thresholds."
        ),
        top: int | None = typer.Option(None, min=1, help="Only the surest so many."),
        masks: bool = typer.Option(True, help="Find masks, boxes and nearest confirmed instances."),
        reviewed: Path | None = typer.Option(
            None, "--import", help="Take a reviewed.csv of `scob review` back as +1 / -1."
        ),
        batch: int = typer.Option(16, min=1, help="Images looked at together."),
        device: str = typer.Option("auto", help="auto|cpu|cuda|cuda:1|mps"),
    ) -> None:
        if reviewed is not None:
            if images or format or minimum is not None or top is not None:
                raise UserError("--import takes decisions back and suggests nothing: it goes with --out alone")
            take_back(run, reviewed, folder)
            return
        from scob.inference.model import Running
        from scob.recovery.suggest import Selection
        from scob.recovery.suggest import recover as find
        from scob.recovery.suggestion import RECOVERED

        with bar("looking") as progress:
            selection, running = Selection(minimum, top), Running(batch, device, progress)
            found = find(run, images or (), folder, format or (), selection, masks, running)
        shown = [
            (
                s.image,
                s.label,
                f"{s.confidence:.3f}",
                f"{s.score:.3f}",
                "" if s.estimate is None else f"{s.estimate:.3f}",
            )
            for s in found.suggestions[:10]
        ]
        if shown:
            out.print(table("The surest suggestions", ("image", "class", "confidence", "score", "estimate"), shown))
        said = f"{counted(len(found.suggestions), 'label')} suggested for {counted(found.images, 'image')}"
        if found.skipped:
            said += f" ({counted(found.skipped, 'file')} skipped)"
        err.print(escape(f"{said}; written to {found.folder}/"), highlight=False, soft_wrap=True)
        if found.suggestions:
            target = run if found.folder == run / RECOVERED else found.folder
            err.print(escape(f"next: {command('review', target)}"), highlight=False, soft_wrap=True)
        else:
            err.print("nothing reaches the thresholds: try --min 0.3", highlight=False)


def take_back(run: Path, reviewed: Path, path: Path | None) -> None:
    """Lay a person's decisions upon the run's labels."""
    from scob.recovery.reviewed import import_reviewed

    made = import_reviewed(run, reviewed, path)
    said = f"{made.confirmed} confirmed, {made.rejected} rejected"
    if made.changed:
        said += f", {made.changed} of them against what the labels said"
    err.print(escape(f"{said}; written to {made.path}"), highlight=False, soft_wrap=True)
    if made.run is None:
        again = command("train", "--images", made.path)
    else:
        run = named(made.run)
        words: list[object] = [made.run / "config.yaml", f"labels.file={made.path}"]
        if made.table:
            words = ["--images", made.path, "--init", made.run]
        again = command("train", *words, "--out", free_path(run.with_name(f"{run.name}-reviewed")))
    err.print(escape(f"next: {again}"), highlight=False, soft_wrap=True)
