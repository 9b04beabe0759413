"""`scob explain MODEL IMAGES...`: show where a model saw what it names."""

from pathlib import Path

import typer

from scob.cli.console import err, escape
from scob.cli.progress import bar, counted


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(help="Show where the model saw each class: overlays, masks, boxes (Python: scob.explain).")
    def explain(
        model: Path = typer.Argument(help="A model folder or a run folder."),
        images: list[str] = typer.Argument(help="Files, folders, patterns; '-' reads a list from stdin."),
        out: Path = typer.Option(Path("explained"), "--out", "-o", help="The folder to write to."),
        classes: list[str] = typer.Option(None, "--class", help="Explain this class, predicted or not; repeatable."),
        masks: str = typer.Option("rle", help="none|png|rle (COCO run lengths in explanations.json)"),
        overlays: bool = typer.Option(True, help="Write an overlay for each class of each image."),
        topk: int = typer.Option(None, min=1, help="Explain the k best classes whatever their score."),
        threshold: float = typer.Option(None, min=0, max=1, help="One threshold in place of the model's own."),
        mask_threshold: float = typer.Option(0.5, min=0, max=1, help="Where the map becomes the mask (Eq. 3)."),
        cam: str = typer.Option("grad", help="grad|grad++"),
        batch: int = typer.Option(16, min=1, help="Images looked at together."),
        device: str = typer.Option("auto", help="auto|cpu|cuda|cuda:1|mps"),
    ) -> None:
        from scob.inference.class_maps import MapSettings
        from scob.inference.explain import ExplanationFiles
        from scob.inference.explain import explain as run
        from scob.inference.model import Running
        from scob.inference.predictions import Naming

        with bar("explaining") as progress:
            counts = run(
                model, images, out, classes or Naming(topk, threshold), MapSettings(cam, threshold=mask_threshold),
                ExplanationFiles(masks, overlays), Running(batch, device, progress),
            )  # fmt: skip
        said = f"{counted(counts['explained'], 'class', 'classes')} in {counted(counts['images'], 'image')}"
        if counts["broken"]:
            said += f", {counts['broken']} of them broken"
        err.print(escape(f"{said}; written to {out}/"), highlight=False, soft_wrap=True)
