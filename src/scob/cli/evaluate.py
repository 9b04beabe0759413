"""`scob evaluate RUN|MODEL`: one table, evaluation.json, bars of average precision, precision-recall curves."""

import json
from dataclasses import asdict
from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evaluate", help="Measure a trained model on a labelled split.")(evaluate)


def evaluate(
    model: Path = typer.Argument(..., metavar="RUN|MODEL", help="A run folder or a model folder."),
    data: str = typer.Option("", help="A folder, a label table, or 'scenes'. For a run: its own data by default."),
    split: str = typer.Option("", help="The split; by default the run's reported one, else val."),
    out: Path = typer.Option(None, help="Where to write; by default RUN/evaluation."),
    format: str = typer.Option("auto", help="The reader: auto|voc|coco|cub|table|folder|scenes."),
    threshold: float = typer.Option(None, min=0, max=1, help="One for all classes; by default the model's own."),
    mirror: bool = typer.Option(None, "--mirror/--no-mirror", help="Average with the mirrored image."),
    batch: int = typer.Option(64, min=1, help="Images a batch."),
    workers: int = typer.Option(None, min=0, help="Processes that decode images."),
    cache: Path = typer.Option(None, help="Folder of the packed image cache."),
    difficult: str = typer.Option("", help="VOC objects marked difficult: positive|negative|ignore."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken images out instead of stopping."),
    device: str = typer.Option("auto", help="auto|cpu|cuda|cuda:1|mps."),
    as_json: bool = typer.Option(False, "--json", help="Print evaluation.json instead of the table."),
) -> None:
    """Measure a model; under `accelerate launch` every process takes its share of the images."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from scob.cli.console import err, escape, table
    from scob.cli.console import out as stdout
    from scob.errors import UserError
    from scob.inference.evaluate import Reading
    from scob.inference.evaluate import evaluate as measure
    from scob.inference.scoring import Scoring
    from scob.parallel import start

    if difficult not in ("", "positive", "negative", "ignore"):
        raise UserError(f"--difficult is {difficult!r}: write positive, negative or ignore")
    processes = start(device)
    folder = out if out is not None else model / "evaluation"
    columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not processes.first) as bar:
        task = bar.add_task("scoring", total=None)
        found = measure(
            model, data or None, split or None,
            out=folder, threshold=threshold, reading=Reading(format, difficult or None, skip_bad),
            scoring=Scoring(batch, mirror, workers, cache, lambda n, total: bar.update(task, completed=n, total=total)),
            processes=processes,
        )  # fmt: skip
    if not processes.first:
        return
    stored = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    if as_json:
        print(json.dumps(stored, indent=1, ensure_ascii=False))
        return
    title = f"{stored['model']} on {stored['data']}, {stored['split']}: {found.images} images, mAP {found.mAP:.2f}"
    rates = {"at the threshold": asdict(found.at_threshold), "top 3": asdict(found.top_3)}
    names = list(next(iter(rates.values())))
    rows = [[what, *(f"{values[name]:.2f}" for name in names)] for what, values in rates.items()]
    stdout.print(table(escape(title), ("%", *names), rows))
    if found.undefined:
        missing = ", ".join(found.undefined)
        err.print(escape(f"Without a known positive or negative, left out of mAP: {missing}"), highlight=False)
    err.print(escape(f"Written: {folder}"), soft_wrap=True, highlight=False)
