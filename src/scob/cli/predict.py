"""`scob predict MODEL IMAGES...`: name everything in images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import counted, note, what_was_named
from scob.cli.options import Device, Images, with_options
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished
from scob.errors import UserError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("predict", help="Name everything in your images with a trained model (Python: scob.predict).")(
        with_options(predict)
    )


@dataclass(frozen=True)
class PredictOptions:
    """The options of `scob predict`."""

    model: Annotated[Path, typer.Argument(help="Model folder, run folder, or .onnx file from `scob export`.")]
    images: Images
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; stdout by default.")] = None
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="Output format: csv, json, jsonl or parquet; by default taken from --out's extension, else csv.",
        ),
    ] = ""
    topk: Annotated[
        int | None, typer.Option(min=1, help="Name the K highest-scoring classes, whatever their scores.")
    ] = None
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="One threshold for all classes, instead of the model's own.")
    ] = None
    include_scores: Annotated[bool, typer.Option("--include-scores", help="Include the score of every class.")] = False
    wide: Annotated[bool, typer.Option("--wide", help="CSV with one column per class: 1 if it is named, 0 if not.")] = (
        False
    )
    bom: Annotated[
        bool, typer.Option("--bom", help="Begin the CSV with a byte-order mark, so that Excel reads it as UTF-8.")
    ] = False
    batch: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 16
    device: Device = "auto"


def predict(options: PredictOptions) -> None:
    """Write the predictions."""
    from scob.inference.model import InferenceOptions
    from scob.inference.predict import predict as run
    from scob.inference.predictions import FORMATS, CsvLayout, NamingRule

    o = options
    ending = o.out.suffix.lstrip(".").lower() if o.out is not None else ""
    if o.out is not None and not o.format and ending in ("xlsx", "xls", "ods"):
        instead = o.out.with_suffix(".csv")
        raise UserError(f"Scob writes no .{ending} files; write --out {instead} --bom, which spreadsheets open")
    format = o.format or (ending if ending in FORMATS else "csv")
    if (o.wide or o.bom) and format != "csv":
        raise UserError(f"--wide and --bom are for CSV, not for {format}")
    layout = CsvLayout(o.wide, o.bom) if format == "csv" else format
    with bar("loading the model") as progress:
        say_if_unfinished(o.model)
        naming, running = NamingRule(o.topk, o.threshold), InferenceOptions(o.batch, o.device, progress)
        counts = run(o.model, o.images, o.out, layout, naming, o.include_scores, running)
    if counts["rank"]:
        return
    summary = counted(counts["images"], "image") + what_was_named(counts["named"], counts["images"] - counts["broken"])
    if counts["broken"]:
        summary += f", {counts['broken']:,} of them broken (see their 'error')"
    if counts["skipped"]:
        summary += f"; skipped {counted(counts['skipped'], 'file that is not an image', 'files that are not images')}"
    note(summary + (f"; written to {o.out}" if o.out else ""))
    if counts["broken"] == counts["images"]:
        raise typer.Exit(1)
