"""`scob predict MODEL IMAGES...`: name everything in images."""

from pathlib import Path

import typer

from scob.cli.console import err, escape
from scob.cli.progress import bar, counted


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(help="Name everything in images with a trained model (Python: scob.predict).")
    def predict(
        model: Path = typer.Argument(help="A model folder, a run folder, or an .onnx file of `scob export`."),
        images: list[str] = typer.Argument(help="Files, folders, patterns; '-' reads a list from stdin."),
        out: Path = typer.Option(None, "--out", "-o", help="The file to write; stdout without it."),
        format: str = typer.Option("", "--format", "-f", help="csv|json|jsonl|parquet; by --out's ending, else csv."),
        topk: int = typer.Option(None, min=1, help="Name the k best classes whatever their score."),
        threshold: float = typer.Option(None, min=0, max=1, help="One threshold in place of the model's own."),
        include_scores: bool = typer.Option(False, "--include-scores", help="Add the score of every class."),
        batch: int = typer.Option(16, min=1, help="Images looked at together."),
        device: str = typer.Option("auto", help="auto|cpu|cuda|cuda:1|mps"),
    ) -> None:
        from scob.inference.model import Running
        from scob.inference.predict import predict as run
        from scob.inference.predictions import FORMATS, Naming

        ending = out.suffix.lstrip(".").lower() if out is not None else ""
        chosen = format or (ending if ending in FORMATS else "csv")
        with bar("predicting") as progress:
            naming, running = Naming(topk, threshold), Running(batch, device, progress)
            counts = run(model, images, out, chosen, naming, include_scores, running)
        if counts["rank"]:
            return
        said = counted(counts["images"], "image")
        if counts["broken"]:
            said += f", {counted(counts['broken'], 'of them broken', 'of them broken')} (see their 'error')"
        if counts["skipped"]:
            said += f"; skipped {counted(counts['skipped'], 'file that is no image', 'files that are no images')}"
        err.print(escape(said + (f"; written to {out}" if out else "")), highlight=False, soft_wrap=True)
