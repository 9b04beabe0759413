"""`scob recover RUN`: suggest the labels that images are missing, and import reviewed ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scob.cli.console import command, counted, note, out, table
from scob.cli.options import Device, with_options
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished
from scob.errors import UserError
from scob.files import free_path, named

if TYPE_CHECKING:
    from scob.recovery.suggestion import Suggestion

SHOWN = 10  # suggestions
CONFIDENCE = (
    "confidence: how likely the label is right (of 100 suggestions with 0.7, about 70 are; fewer if your labels name "
    "what stands out most), from the score of the trained model."
)
ESTIMATE = " estimate: what training believed of the label (blank for held-out images)."
DOUBT = (
    "score: what a classifier that was not trained on the image gives the label. A low score means a high doubt, above "
    "all for a frequent class."
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("recover", help="Suggest missing labels, or import reviewed ones (Python: scob.recover).")(
        with_options(recover)
    )


@dataclass(frozen=True)
class RecoverOptions:
    """The options of `scob recover`."""

    run: Annotated[
        Path,
        typer.Argument(help="Run folder. With --images, a model also works; with --import, a folder of suggestions."),
    ]
    images: Annotated[
        list[str] | None,
        typer.Option("--images", help="Suggest labels for these files or folders, not the run's images; repeatable."),
    ] = None
    format: Annotated[
        list[str] | None,
        typer.Option("--format", "-f", help="Also write csv, coco, labelstudio, fiftyone or cleanlab; repeatable."),
    ] = None
    folder: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; RUN/recovered by default.")] = None
    minimum: Annotated[
        float | None,
        typer.Option("--min", min=0, max=1, help="Minimum confidence; by default each class has its own threshold."),
    ] = None
    top: Annotated[
        int | None, typer.Option(min=1, help="Keep only N suggestions: the most confident of each class in turn.")
    ] = None
    masks: Annotated[bool, typer.Option(help="Find masks, boxes and the nearest confirmed instances.")] = True
    doubtful: Annotated[
        bool, typer.Option("--doubtful", help="List given labels that look wrong instead, to review them the same way.")
    ] = False
    reviewed: Annotated[
        Path | None,
        typer.Option("--import", help="Import answers: `scob review`'s reviewed.csv, or an export of Label Studio."),
    ] = None
    batch: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 16
    device: Device = "auto"


def recover(options: RecoverOptions) -> None:
    """Write suggestions, or import decisions."""
    o = options
    if o.reviewed is not None:
        if o.images or o.format or o.minimum is not None or o.top is not None:
            raise UserError("--import only reads decisions back; the only other option it accepts is --out")
        import_decisions(o.run, o.reviewed, o.folder)
        return
    if o.doubtful:
        if o.images or o.format or o.minimum is not None:
            raise UserError("--doubtful looks at the run's own labels; it accepts --top, --out, --batch and --device")
        list_doubtful(o)
        return
    from scob.inference.model import InferenceOptions
    from scob.recovery.calibration import ENOUGH
    from scob.recovery.exchange import how_to_load
    from scob.recovery.suggest import SuggestionLimits
    from scob.recovery.suggest import recover as suggest
    from scob.recovery.suggestion import RECOVERED

    with bar("loading the model") as progress:
        say_if_unfinished(o.run)
        selection, running = SuggestionLimits(o.minimum, o.top), InferenceOptions(o.batch, o.device, progress)
        recovered = suggest(o.run, o.images or (), o.folder, o.format or (), selection, o.masks, running)
    if recovered.suggestions:
        print_suggestions(recovered.suggestions)
    summary = f"{counted(len(recovered.suggestions), 'label')} suggested for {counted(recovered.images, 'image')}"
    if recovered.skipped:
        summary += f" ({counted(recovered.skipped, 'file')} skipped)"
    note(f"{summary}; written to {recovered.folder}/")
    if recovered.held_out < ENOUGH:
        note(
            f"the confidences are rough: calibrating them takes {ENOUGH} images that were held out from training, and "
            f"there are {recovered.held_out} (`train.holdout` is their share)"
        )
    for line in how_to_load(recovered.folder, o.format or (), recovered.files):
        note(line)
    m = recovered.measured
    if m is not None:
        note(
            f"measured against the {m.entries:,} labels that the run did not see: average precision "
            f"{m.average_precision:.1f}%, precision {m.precision:.1f}% and recall {m.recall:.1f}% at the thresholds, "
            f"calibration error {m.calibration_error:.1f}% ({m.uncalibrated_error:.1f}% uncalibrated)"
        )
    nowhere = sum(s.boxes == () for s in recovered.suggestions)
    if nowhere:
        note(f"no clear place for {nowhere} of them: the evidence is too thin to show where")
    if recovered.suggestions:
        target = o.run if recovered.folder == o.run / RECOVERED else recovered.folder
        note(f"next: {command('review', target)}")
    else:
        note("no label reaches its threshold: try --min 0.3")


def print_suggestions(suggestions: "Sequence[Suggestion]") -> None:
    """Print the first ones. Estimates have a column of their own unless they are the scores, as in method=pairs."""
    shown = suggestions[:SHOWN]
    differ = any(s.estimate not in (None, s.score) for s in suggestions)
    heads = ("image", "class", "confidence", "score", *(["estimate"] if differ else []))
    rows = []
    for s in shown:
        estimate = "" if s.estimate is None else f"{s.estimate:.3f}"
        rows.append((s.image, s.label, f"{s.confidence:.3f}", f"{s.score:.3f}", *([estimate] if differ else [])))
    out.print(table("The most confident suggestions", heads, rows))
    out.print(CONFIDENCE + (ESTIMATE if differ else ""), style="dim", highlight=False)


def import_decisions(run: Path, reviewed: Path, path: Path | None) -> None:
    """Apply a reviewer's decisions to the run's labels, and print how to train with them."""
    from scob.recovery.reviewed import import_reviewed

    imported = import_reviewed(run, reviewed, path)
    summary = f"{imported.confirmed} confirmed, {imported.rejected} rejected"
    if imported.changed:
        summary += f", {imported.changed} of them contradicting the existing labels"
    for path, answers in imported.earlier:
        summary += f", and {counted(answers, 'answer')} from {path}"
    note(f"{summary}; written to {imported.path}")
    if imported.run is None:
        again = command("train", "--images", imported.path)
    else:
        run = named(imported.run)
        words: list[object] = [imported.run / "config.yaml", f"labels.file={imported.path}"]
        if imported.table:
            words = ["--images", imported.path, "--init", imported.run]
        again = command("train", *words, "--out", free_path(run.with_name(f"{run.name}-reviewed")))
    note(f"next: {again}")


def list_doubtful(options: RecoverOptions) -> None:
    """List the given labels that look wrong, and say how to review them."""
    from scob.inference.model import InferenceOptions
    from scob.recovery.doubtful import find_doubtful

    o = options
    with bar("reading") as progress:
        found = find_doubtful(o.run, o.folder, o.top, InferenceOptions(o.batch, o.device, progress))
    rows = [(s.image, s.label, f"{s.confidence:.3f}", f"{s.score:.3f}") for s in found.suggestions[:SHOWN]]
    if rows:
        heads = ("image", "given label", "doubt", "score")
        out.print(table("The most doubtful labels", heads, rows))
        out.print(DOUBT, style="dim", highlight=False)
    listed, folder = len(found.suggestions), found.folder
    if not listed:
        note(
            f"none of {counted(found.given, 'given label')} looks wrong; --top N lists the N most doubtful all the same"
        )
        return
    most = f"at most about {found.wrong_at_most:,} of {counted(found.given, 'given label')} may be wrong"
    note(f"{most}; listed in {folder}/: {listed:,}, the most doubtful first (--top N lists another number)")
    note(f"next: {command('review', folder)} (reject what the image does not show)")
