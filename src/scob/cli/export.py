"""`scob export MODEL`: one file that predicts without torch."""

from pathlib import Path

import typer

from scob.cli.console import command, err, escape
from scob.cli.progress import bar


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(help="Write the model as one ONNX file, checked against torch (Python: scob.export).")
    def export(
        model: Path = typer.Argument(help="A model folder or a run folder."),
        out: Path = typer.Option(None, "--out", "-o", help="The file to write; else beside the model."),
        format: str = typer.Option("onnx", "--format", "-f", help="onnx"),
        int8: bool = typer.Option(False, "--int8", help="8-bit convolutions and linear layers."),
        calibration: list[str] = typer.Option(
            None, help="Images to calibrate int8 on, unlabelled; the run's own if left out."
        ),
        data: str = typer.Option("", help="A labelled data set: mAP of both models is measured on it."),
        split: str = typer.Option(None, help="The split of --data."),
        tolerance: float = typer.Option(1e-3, min=0, help="Greatest difference from torch of an fp32 probability."),
    ) -> None:
        from scob.inference.onnx.export import Comparison
        from scob.inference.onnx.export import export as write

        with bar("measuring") as progress:
            comparison = Comparison(tolerance, data, split, progress)
            made = write(model, out, format, int8, calibration or (), comparison)
        said = f"{made.path}: {made.bytes / 1e6:.1f} MB; fp32 differs from torch by at most {made.difference:.1e}"
        if made.int8_difference is not None:
            said += f", int8 by {made.int8_difference:.3f}"
        err.print(escape(said), highlight=False, soft_wrap=True)
        if made.map_torch is not None and made.map_exported is not None:
            change = made.map_exported - made.map_torch
            told = f"mAP {made.map_torch:.2f} with torch, {made.map_exported:.2f} exported ({change:+.2f})"
            err.print(told, highlight=False)
        err.print(escape(f"next: {command('predict', made.path)} IMAGES"), highlight=False, soft_wrap=True)
