"""`scob demo`: see the method work on drawn scenes, in a few minutes, with nothing but this package."""

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scob.cli.console import best_cells, counted, duration, err, escape, note, out, table

if TYPE_CHECKING:
    from scob.studies.demo_results import Demo


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "demo", help="Train Scob and five other methods on drawn scenes and write a report (Python: scob.demo)."
    )(demo)


def demo(
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings as key=value, on top of configs/demo.yaml.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of seeds (labels and weights); with two or more, deviations are shown.")
    ] = 1,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder for the results; a number is added if it already contains a demo.")
    ] = Path("demo"),
) -> None:
    """One table, `results.json` and a self-contained `report.html`."""
    import time

    from scob.cli.live import Live, bars
    from scob.studies.demo import demo as run
    from scob.studies.demo_results import METHODS
    from scob.training.stopping import Interrupted

    folder = _free_folder(out_folder)
    began = time.monotonic()
    err.print("Drawing the scenes. Each method then learns from one label per image.", style="dim")
    display = bars()

    def report_of(method: str, seed: int, config: Any) -> Live:
        return Live(METHODS[method] if seeds == 1 else f"{METHODS[method]}, seed {seed}", display)

    try:
        with display:
            results = run(folder, seeds, settings or [], report_of)
    except (Interrupted, KeyboardInterrupt) as stop:
        note(f"Stopped. The rows that have ended are kept in {folder / 'runs'}.")
        raise typer.Exit(stop.code if isinstance(stop, Interrupted) else 130) from None
    show(results, seeds)
    out.print(
        f"Took {duration(time.monotonic() - began)}. Report: {escape(str(folder / 'report.html'))}", highlight=False
    )


def _free_folder(folder: Path) -> Path:
    """`folder`, or the first of `folder-2`, `folder-3`, ... without a demo in it."""
    free, number = folder, 2
    while (free / "runs").exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free


def show(results: "Demo", seeds: int) -> None:
    """Print the table, and how often the map peaks inside the object."""
    from scob.studies.demo_report import spread
    from scob.studies.demo_results import COLUMNS, METHODS

    rows = [
        (title, *(spread(results.values[method][c]).replace(" ± ", "±") for c in COLUMNS))
        for method, title in METHODS.items()
    ]
    heads = [
        c.replace("recovered ", "").replace("precision", "prec.") + "*" * c.startswith("recovered") for c in COLUMNS
    ]
    means = [[fmean(results.values[method][c]) for c in COLUMNS] for method in METHODS]
    best = best_cells(means)
    out.print(table(f"One label per image, {counted(seeds, 'seed')}", ("method", *heads), rows, best))
    out.print(
        "* on the recovered labels, that is, the unknown entries of the training images; precision and recall at 0.5."
    )
    p = results.pointing
    if p:
        out.print(
            f"Scob's map of the observed label peaks inside the object {100 * p['inside']:.0f}% of the time "
            f"({100 * p['by_chance']:.0f}% by chance).",
            highlight=False,
        )
