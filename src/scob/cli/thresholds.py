"""`scob thresholds RUN`: choose one threshold per class."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scob.cli.console import counted, note, out, table
from scob.cli.options import Device
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished

if TYPE_CHECKING:
    from scob.inference.thresholds import ChosenThresholds

SHOWN = 60  # classes


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("thresholds", help="Choose one threshold per class from the known labels (Python: scob.thresholds).")(
        thresholds
    )


def thresholds(
    run: Annotated[Path, typer.Argument(help="Finished run folder.")],
    device: Device = "auto",
    figures: Annotated[bool, typer.Option(help="Plot the calibration of the scores.")] = True,
) -> None:
    """Choose the thresholds, store them with the model, and print them."""
    from scob.inference.thresholds import thresholds as choose

    with bar("loading the model") as progress:
        say_if_unfinished(run)
        choice = choose(run, device, progress, figures)
    rows = [
        (
            name, f"{limit:.3f} (shared)" if shared else f"{limit:.3f}", known, f"{100 * prevalence:.1f}%",
            "-" if isnan(f1) else f"{100 * f1:.1f}",
        )
        for name, limit, known, prevalence, f1, shared in zip(
            choice.classes, choice.thresholds, choice.positives, choice.prevalence, choice.expected_f1,
            choice.pooled, strict=True,
        )
    ]  # fmt: skip
    columns = ("class", "threshold", "known positives", "expected share", "F1 on held-out images")
    out.print(table("Thresholds", columns, rows[:SHOWN]))
    if len(rows) > SHOWN:
        out.print(f"and {len(rows) - SHOWN} more classes")
    note(how_good(choice))
    summary = f"stored in {run / 'model'}; `scob predict` uses them"
    if choice.figures:
        summary += f"; calibration plot: {choice.figures[0]}"
    note(summary)


def how_good(choice: "ChosenThresholds") -> str:
    """What the F1 in the table means, and that of all labels together."""
    from scob.inference.thresholds import HELD

    if isnan(choice.overall_f1):
        return (
            "F1 cannot be measured: too few images with a known label were held out from training. Thresholds from "
            "images that the model was trained on tend to be too high: for better ones, train with train.holdout=0.1"
        )
    text = (
        f"F1 over all classes: {100 * choice.overall_f1:.1f}, on {counted(choice.held_out, 'image')} that the model "
        "was not trained on, each measured at thresholds chosen without it; what nobody labelled is estimated"
    )
    if any(isnan(value) for value in choice.expected_f1):
        text += f" (-: fewer than {HELD} known positives among them)"
    return text
