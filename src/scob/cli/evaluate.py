"""`scob evaluate RUN|MODEL`: one table, evaluation.json and two figures; with --masks, another table and masks.json."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from scob.cli import console
from scob.cli.console import escape, note, sentence, table
from scob.cli.options import Device, ReaderName, check_difficult, with_options
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished
from scob.errors import UserError
from scob.launch import launch


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evaluate", help="Evaluate a trained model on a labelled split (Python: scob.evaluate).")(
        with_options(evaluate)
    )


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of `scob evaluate`."""

    model: Annotated[Path, typer.Argument(metavar="RUN|MODEL", help="Run folder or model folder.")]
    data: Annotated[str, typer.Option(help="Folder, label table, or 'scenes'; by default the run's own data.")] = ""
    split: Annotated[str, typer.Option(help="Split to evaluate; by default the run's reported split, else val.")] = ""
    masks: Annotated[
        bool,
        typer.Option(
            "--masks",
            help="Measure masks and boxes instead of labels, on data with segmentation or boxes; needs a RUN.",
        ),
    ] = False
    out: Annotated[Path | None, typer.Option(help="Folder for the results; RUN/evaluation by default.")] = None
    format: ReaderName = "auto"
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="One threshold for all classes, instead of the model's own.")
    ] = None
    mirror: Annotated[
        bool | None,
        typer.Option(
            "--mirror/--no-mirror",
            help="Average the scores with those of the mirrored image; by default as in the run.",
        ),
    ] = None
    batch: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 64
    workers: Annotated[
        int | None, typer.Option(min=0, help="Number of decoding processes; by default as in the run.")
    ] = None
    cache: Annotated[Path | None, typer.Option(help="Folder of the packed image cache.")] = None
    difficult: Annotated[
        str,
        typer.Option(
            help="How to treat VOC objects marked difficult: positive, negative or ignore; by default as in the run."
        ),
    ] = ""
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip broken images instead of stopping.")] = False
    device: Device = "auto"
    as_json: Annotated[
        bool, typer.Option("--json", help="Print evaluation.json (with --masks, masks.json) instead of a table.")
    ] = False


def evaluate(options: EvaluateOptions) -> None:
    """Evaluate a model; under `accelerate launch` every process scores its share of the images."""
    from scob.inference.evaluate import DataOptions
    from scob.inference.evaluate import evaluate as measure
    from scob.inference.scoring import ScoringOptions
    from scob.parallel import start

    o = options
    if o.difficult:
        check_difficult(o.difficult)
    if o.masks:
        _evaluate_masks(o)
        return
    processes = start(o.device)
    folder = o.out if o.out is not None else o.model / "evaluation"
    with bar("loading the model", shown=processes.first) as progress:
        say_if_unfinished(o.model)
        metrics = measure(
            o.model, o.data or None, o.split or None,
            out=folder, threshold=o.threshold, reading=DataOptions(o.format, o.difficult or None, o.skip_bad),
            scoring=ScoringOptions(o.batch, o.mirror, o.workers, o.cache, progress), processes=processes,
        )  # fmt: skip
    if not processes.first:
        return
    stored = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    if o.as_json:
        print(json.dumps(stored, indent=1, ensure_ascii=False))
        return
    title = f"{stored['model']} on {stored['data']}, {stored['split']}: {metrics.images} images, mAP {metrics.mAP:.2f}"
    rates = {"at the threshold": asdict(metrics.at_threshold), "top 3": asdict(metrics.top_3)}
    names = list(next(iter(rates.values())))
    rows = [[what, *(f"{values[name]:.2f}" for name in names)] for what, values in rates.items()]
    console.out.print(table(escape(title), ("%", *names), rows))
    console.out.print(console.MEASURES, style="dim", highlight=False)
    if stored.get("measured"):
        note(sentence(stored["measured"]))
    if metrics.undefined:
        note(f"Not in mAP (no known positive or no known negative): {', '.join(metrics.undefined)}")
    note(f"Written: {folder}")


def _evaluate_masks(o: EvaluateOptions) -> None:
    """Measure where the masks lie: on the training images' observed labels, and on predicted labels elsewhere."""
    from scob.inference.evaluate import DataOptions
    from scob.inference.evaluate_masks import evaluate_masks
    from scob.inference.model import InferenceOptions
    from scob.inference.predictions import NamingRule

    if (o.mirror, o.workers, o.cache) != (None, None, None):
        raise UserError("--mirror, --workers and --cache have no effect on --masks: leave them out")
    if launch().count > 1:
        raise UserError("--masks runs in one process: start it without accelerate launch or torchrun")
    folder = o.out if o.out is not None else o.model / "evaluation"
    with bar("measuring masks") as progress:
        say_if_unfinished(o.model)
        evaluation = evaluate_masks(
            o.model, o.data or None, o.split or None,
            out=folder, naming=NamingRule(threshold=o.threshold),
            reading=DataOptions(o.format, o.difficult or None, o.skip_bad),
            running=InferenceOptions(o.batch, o.device, progress),
        )  # fmt: skip
    if o.as_json:
        print(json.dumps(evaluation.to_json(), indent=1, ensure_ascii=False))
        return
    title = f"Masks of {evaluation.model} at {evaluation.size} pixels"
    rows = [[name, *(_shown(value) for value in values)] for name, values in evaluation.rows().items()]
    console.out.print(table(escape(title), ("%", *evaluation.populations), rows))
    for line in evaluation.remarks():
        note(line)
    note(f"Written: {folder / 'masks.json'}")


def _shown(value: float | int | None) -> str:
    """A count as it is, a rate with one decimal, '-' for what the data cannot say."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
