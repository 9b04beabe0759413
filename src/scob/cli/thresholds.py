"""`scob thresholds RUN`: choose one threshold per class."""

from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import note, out, table
from scob.cli.options import Device
from scob.cli.progress import bar
from scob.cli.unfinished import say_if_unfinished

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
        (name, f"{limit:.3f}", known, f"{100 * prevalence:.1f}%", "shared" if shared else f"{100 * f1:.1f}")
        for name, limit, known, prevalence, f1, shared in zip(
            choice.classes, choice.thresholds, choice.positives, choice.prevalence, choice.expected_f1,
            choice.pooled, strict=True,
        )
    ]  # fmt: skip
    columns = ("class", "threshold", "known positives", "expected share", "F1 (cross-validated)")
    out.print(table("Thresholds", columns, rows[:SHOWN]))
    if len(rows) > SHOWN:
        out.print(f"and {len(rows) - SHOWN} more classes")
    summary = f"stored in {run / 'model'}; `scob predict` uses them"
    if choice.figures:
        summary += f"; calibration plot: {choice.figures[0]}"
    note(summary)
