"""`scob demo`: the method at work on drawn scenes, in a few minutes, with nothing but this package."""

from pathlib import Path
from typing import Annotated, Any

import typer

from scob.cli.console import err, escape, out, table


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo", help="Train assume-negative, ROLE, Scob and full labels on drawn scenes; write a report.")(demo)


def demo(
    settings: Annotated[list[str] | None, typer.Argument(help="key=value words on top of configs/demo.yaml.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of labels and weights; more than one gives deviations.")] = 1,
    out_folder: Annotated[Path, typer.Option("--out", help="Where results and report go; must be new.")] = Path("demo"),
) -> None:
    """One table, `results.json` and a self-contained `report.html`."""
    import time

    from scob.cli.live import Live
    from scob.cli.train import duration
    from scob.studies.demo import COLUMNS, METHODS
    from scob.studies.demo import demo as run
    from scob.studies.demo_report import spread

    folder, number = out_folder, 2
    while (folder / "runs").exists():
        folder, number = out_folder.with_name(f"{out_folder.name}-{number}"), number + 1
    began = time.monotonic()
    err.print("Drawing scenes and looking at them once; then each method learns from one label an image.", style="dim")
    current: list[Live] = []

    def report_of(method: str, seed: int, config: Any) -> Live:
        for live in current:
            live.stop()
        title = METHODS[method] if seeds == 1 else f"{METHODS[method]}, seed {seed}"
        current[:] = [Live(title).__enter__()]
        return current[0]

    try:
        found = run(folder, seeds, settings or [], report_of)
    finally:
        for live in current:
            live.stop()
    rows = [
        (title, *(spread(found.values[method][c]).replace(" ± ", "±") for c in COLUMNS))
        for method, title in METHODS.items()
    ]
    heads = [
        c.replace("recovered ", "").replace("precision", "prec.") + "*" * c.startswith("recovered") for c in COLUMNS
    ]
    out.print(table(f"One label an image, {seeds} seed{'s' if seeds > 1 else ''}", ("method", *heads), rows))
    out.print("* of recovered labels: the unknown entries of the training images; precision and recall at 0.5.")
    p = found.pointing
    if p:
        out.print(
            f"Scob's map of the observed label peaks inside the object {100 * p['inside']:.0f}% of the time "
            f"({100 * p['by_chance']:.0f}% by chance).",
            highlight=False,
        )
    out.print(
        f"Took {duration(time.monotonic() - began)}. Report: {escape(str(folder / 'report.html'))}", highlight=False
    )
