"""`scob export MODEL`: one file that predicts without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import command, note
from scob.cli.crash import explain_crashes
from scob.cli.options import with_options
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export", help="Export a model to one ONNX file and check it against PyTorch (Python: scob.export).")(
        with_options(export)
    )


@dataclass(frozen=True)
class ExportOptions:
    """The options of `scob export`."""

    model: Annotated[Path, typer.Argument(help="Model folder or run folder.")]
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; by default next to the model.")] = None
    format: Annotated[str, typer.Option("--format", "-f", help="Output format (only onnx).")] = "onnx"
    int8: Annotated[bool, typer.Option("--int8", help="Quantise convolutions and linear layers to 8 bits.")] = False
    calibration: Annotated[
        list[str] | None,
        typer.Option(help="Unlabelled images to calibrate int8 on, by default the run's own; repeatable."),
    ] = None
    data: Annotated[str, typer.Option(help="Labelled data on which to compare the mAP of both models.")] = ""
    split: Annotated[str | None, typer.Option(help="Split of --data.")] = None
    tolerance: Annotated[
        float, typer.Option(min=0, help="Largest allowed difference between an fp32 probability and PyTorch's.")
    ] = 1e-3


def export(options: ExportOptions) -> None:
    """Write the file, measure it, and print how to predict with it."""
    explain_crashes("export")
    from scob.inference.onnx.export import ExportCheck
    from scob.inference.onnx.export import export as write

    o = options
    with bar("loading the model") as progress:
        say_if_unfinished(o.model)
        comparison = ExportCheck(o.tolerance, o.data, o.split, progress)
        exported = write(o.model, o.out, o.format, o.int8, o.calibration or (), comparison)
    size = f"{exported.path}: {exported.bytes / 1e6:.1f} MB"
    difference = f"fp32 differs from PyTorch by at most {exported.difference:.1e}"
    if exported.int8_difference is not None:
        difference += f", int8 by {exported.int8_difference:.3f}"
    note(f"{size}; {difference}")
    if exported.map_torch is not None and exported.map_exported is not None:
        change = exported.map_exported - exported.map_torch
        note(f"mAP {exported.map_torch:.2f} with PyTorch, {exported.map_exported:.2f} exported ({change:+.2f})")
    note(f"next: {command('predict', exported.path)} IMAGES")
