"""`scob thresholds RUN`: choose one threshold a class."""

from pathlib import Path

import typer

from scob.cli.console import err, escape, out, table
from scob.cli.progress import bar

SHOWN = 60


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(help="Choose a threshold for each class from what is known (Python: scob.thresholds).")
    def thresholds(
        run: Path = typer.Argument(help="A finished run folder."),
        device: str = typer.Option("auto", help="auto|cpu|cuda|cuda:1|mps"),
        figures: bool = typer.Option(True, help="Draw the calibration of the scores."),
    ) -> None:
        from scob.inference.thresholds import thresholds as choose

        with bar("scoring") as progress:
            chosen = choose(run, device, progress, figures)
        rows = [
            (name, f"{limit:.3f}", known, f"{100 * prevalence:.1f}%", "all classes'" if shared else f"{100 * f1:.1f}")
            for name, limit, known, prevalence, f1, shared in zip(
                chosen.classes, chosen.thresholds, chosen.positives, chosen.prevalence, chosen.expected_f1,
                chosen.pooled, strict=True,
            )
        ]  # fmt: skip
        columns = ("class", "threshold", "known positives", "expected share", "expected F1")
        out.print(table("Thresholds", columns, rows[:SHOWN]))
        if len(rows) > SHOWN:
            out.print(f"and {len(rows) - SHOWN} more classes")
        said = f"stored in {run / 'model'}; `scob predict` uses them"
        if chosen.figures:
            said += f"; calibration drawn in {chosen.figures[0]}"
        err.print(escape(said), highlight=False, soft_wrap=True)
