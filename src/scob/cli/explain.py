"""`scob explain MODEL IMAGES...`: show where a model sees what it names."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import counted, note, what_was_named
from scob.cli.options import Device, Images, with_options
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "explain", help="Show where the model sees each class: overlays, masks and boxes (Python: scob.explain)."
    )(with_options(explain))


@dataclass(frozen=True)
class ExplainOptions:
    """The options of `scob explain`."""

    model: Annotated[Path, typer.Argument(help="Model folder or run folder.")]
    images: Images
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("explained")
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Explain this class even if it is not predicted; repeatable.")
    ] = None
    masks: Annotated[
        str, typer.Option(help="Masks to write: none, png, or rle (COCO run lengths, in the JSON file).")
    ] = "rle"
    overlays: Annotated[bool, typer.Option(help="Write an overlay for each class of each image.")] = True
    sheet: Annotated[
        bool, typer.Option("--sheet", help="Write a contact sheet, images by classes: sheet.png and sheet.html.")
    ] = False
    topk: Annotated[
        int | None, typer.Option(min=1, help="Explain the K highest-scoring classes, whatever their scores.")
    ] = None
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="One threshold for all classes, instead of the model's own.")
    ] = None
    mask_threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Threshold that turns a map into a mask (Eq. 3).")
    ] = 0.5
    cam: Annotated[str, typer.Option(help="Class activation map: sharp, grad, grad++ or layer.")] = "sharp"
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Average the maps of each image and its mirror image; takes twice as long.")
    ] = False
    batch: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 16
    device: Device = "auto"


def explain(options: ExplainOptions) -> None:
    """Write the explanations of the images."""
    from scob.inference.class_maps import EXPLAINED
    from scob.inference.explain import ExplanationFiles
    from scob.inference.explain import explain as run
    from scob.inference.model import InferenceOptions
    from scob.inference.predictions import NamingRule

    o = options
    with bar("loading the model") as progress:
        say_if_unfinished(o.model)
        counts = run(
            o.model, o.images, o.out, o.classes or NamingRule(o.topk, o.threshold),
            replace(EXPLAINED, cam=o.cam, threshold=o.mask_threshold, mirror=o.mirror),
            ExplanationFiles(o.masks, o.overlays, o.sheet),
            InferenceOptions(o.batch, o.device, progress),
        )  # fmt: skip
    summary = counted(counts["images"], "image") + what_was_named(counts["named"], counts["images"] - counts["broken"])
    if counts["broken"]:
        summary += f", {counts['broken']} of them broken"
    note(f"{summary}; written to {o.out}/")
    if counts["broken"] == counts["images"]:
        raise typer.Exit(1)
    if counts["unclear"]:
        note(f"no clear place for {counts['unclear']} of them: the evidence is too thin to show where")
    if o.sheet:
        note(f"contact sheet: {o.out / 'sheet.html'} and {o.out / 'sheet.png'}")
