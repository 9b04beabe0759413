"""`scob compare METHOD... --data SOURCE`: rank methods trained on the same observed labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scob.cli.console import MEASURES_MAP, best_cells, escape, note, out, sentence, table
from scob.cli.options import with_options
from scob.cli.run_report import show_layouts
from scob.errors import UserError

if TYPE_CHECKING:
    from scob.cli.study_live import StudyLive
    from scob.config import Config


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "compare",
        help="Train several methods on the same labels and rank them; --list shows them (Python: scob.compare).",
    )(with_options(compare))


@dataclass(frozen=True)
class CompareOptions:
    """The options of `scob compare`."""

    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD... [KEY=VALUE]...", help="Methods, then settings such as train.epochs=3."),
    ] = None
    data: Annotated[
        str, typer.Option(help="Folder (one folder of images per class, or a benchmark), label table, or 'scenes'.")
    ] = ""
    val: Annotated[
        Path | None,
        typer.Option(help="For your own images: table with complete labels to measure on; else some are held out."),
    ] = None
    config: Annotated[
        Path | None, typer.Option(help="Settings file for all runs; for scenes, the demo's by default.")
    ] = None
    backbone: Annotated[
        str, typer.Option(help="Hub name, folder, ResNet file, or photographs; by default as in `scob train`.")
    ] = ""
    labels: Annotated[str, typer.Option(help="Observed labels: single, partial:0.1, full or given.")] = ""
    seeds: Annotated[int, typer.Option(min=1, help="Runs per method; each seed draws its own labels.")] = 1
    top: Annotated[
        int,
        typer.Option(
            min=0, help="After the first seed, continue with only role, full and the N best methods; 0 means all."
        ),
    ] = 0
    out: Annotated[Path, typer.Option(help="Folder for runs and results; finished runs in it are reused.")] = Path(
        "comparison"
    )
    methods_folder: Annotated[list[Path] | None, typer.Option(help="Folder with your own methods; repeatable.")] = None
    show: Annotated[bool, typer.Option("--list", help="List every method and what it does.")] = False


def compare(options: CompareOptions) -> None:
    """Run what is missing, print the table, write Markdown, CSV, JSON, PNG and SVG."""
    from scob.cli.study_live import StudyLive

    with StudyLive() as display:
        _compare(options, display)


def _compare(o: CompareOptions, display: "StudyLive") -> None:
    from scob import methods
    from scob.studies.compare import NAME
    from scob.studies.compare import compare as run
    from scob.training.stopping import Interrupted

    for folder in o.methods_folder or []:
        methods.register_folder(folder)
    if o.show:
        display.stop()
        list_methods()
        return
    words = o.words or []
    names = [word for word in words if "=" not in word]
    if not names:
        raise UserError("name the methods to compare, as in scob compare role scob full; --list shows all methods")
    overrides = [*label_settings(o.labels), *(word for word in words if "=" in word)]
    if not o.data and o.config is None:
        raise UserError("name the data to compare on: --data SOURCE (a folder, a label table, or 'scenes')")
    source = o.data
    if not source:
        assert o.config is not None
        from scob.config import read_yaml

        source = str(read_yaml(o.config).get("data", {}).get("source", "scenes"))
    for name in names:
        methods.find(name)
    settings = comparison_settings(o, source, names, overrides, display)
    try:
        rows = run(names, settings, o.out, o.seeds, display, o.top)
    except (Interrupted, KeyboardInterrupt) as stop:
        display.stop()
        note("Stopped. Finished work is kept; run the same command to continue.")
        raise typer.Exit(stop.code if isinstance(stop, Interrupted) else 130) from None
    display.stop()
    if display.first:
        print_rows(rows)
        if measured := rows[0].get("measured"):
            note(sentence(measured))
        note("Written: " + ", ".join(str(o.out / f"{NAME}.{ending}") for ending in ("md", "csv", "json", "png", "svg")))


def comparison_settings(
    o: CompareOptions, source: str, names: Sequence[str], overrides: Sequence[str], display: "StudyLive"
) -> "Config":
    """The settings of all runs: chosen as `scob train --images` does for somebody's own images, else by the data."""
    from scob import methods
    from scob.config import resolve
    from scob.data.readers import infer_format
    from scob.labels import UNKNOWN
    from scob.parallel import choose_device
    from scob.studies.reproduce.registry import settings_for
    from scob.training.choose_backbone import choose_backbone
    from scob.training.prepare import prepare
    from scob.training.run_splits import HELD_OUT

    named = any(word.startswith("model.backbone=") for word in overrides)
    if o.config is not None or infer_format(source) not in ("folder", "table"):
        if o.val is not None:
            raise UserError("--val is for your own images, without --config: name the split with data.evaluate=SPLIT")
        tree = settings_for(source, o.config, overrides, o.backbone or None)
        return resolve(tree, "on the command line", methods.section_names())
    device = next((word.partition("=")[2] for word in overrides if word.startswith("train.device=")), "auto")
    backbone = o.backbone
    if not backbone and not named:
        backbone, reason = choose_backbone(choose_device(device))
        if reason:
            display.line(reason)
    show_layouts(Path(source), o.val, list(overrides))
    prepared = prepare(source, o.val, backbone, device, overrides=overrides, estimate=False, listen=display)
    if "full" in names and (prepared.data.train.labels.values == UNKNOWN).any():
        raise UserError(
            f"the method full needs every label of every image, and {source} does not have them: leave it out"
        )
    for remark in prepared.notes:
        display.line(f"note: {remark}")
    config = prepared.config
    if prepared.data.evaluate is None:
        config = config.model_copy(update={"data": config.data.model_copy(update={"evaluate": HELD_OUT})})
    return config


def label_settings(labels: str) -> list[str]:
    """`partial:0.1` as settings."""
    if not labels:
        return []
    kind, _, fraction = labels.partition(":")
    if kind not in ("single", "partial", "full", "given") or (fraction and kind != "partial"):
        raise UserError(f"--labels {labels}: write single, partial:0.1, full or given")
    return [f"labels.kind={kind}", *([f"labels.fraction={fraction}"] if fraction else [])]


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table, best method first."""

    def shown(value: float | None, decimals: int, suffix: str = "") -> str:
        return "-" if value is None else f"{value:.{decimals}f}{suffix}"

    lines: list[tuple[str, ...]] = []
    for number, row in enumerate(rows, 1):
        spread = "" if row["deviation"] is None else f" ± {row['deviation']:.1f}"
        lines.append(
            (
                row["title"], row["name"], f"{number}", shown(row["mAP"], 1) + spread, shown(row["share"], 0, "%"),
                shown(row["images per second"], 0), shown(row["seconds per epoch"], 2),
            )
        )  # fmt: skip
    heads: tuple[str, ...] = ("method", "name", "rank", "mAP", "gap closed (ROLE to full)", "images/s", "s/epoch")
    best = best_cells([(row["mAP"],) for row in rows], first_column=3)
    if all(row["share"] is None for row in rows):  # needs role and full labels
        lines = [(*line[:4], *line[5:]) for line in lines]
        heads = (*heads[:4], *heads[5:])
    out.print(table("The same images, the same observed labels", heads, lines, best))
    out.print(MEASURES_MAP, style="dim", highlight=False)


def list_methods() -> None:
    """Every method: its name, its title and the first line of its class's docstring (else its file's)."""
    import sys

    from rich.table import Table

    from scob import methods

    listing = Table(title="Methods", title_justify="left", header_style="bold")
    listing.add_column("name", no_wrap=True)
    listing.add_column("title", no_wrap=True)
    listing.add_column("what it does")
    for name in methods.names():
        kind = methods.find(name)
        docstring = kind.__doc__ or sys.modules[kind.__module__].__doc__ or ""
        summary = docstring.strip().partition("\n")[0]
        listing.add_row(name, escape(kind.title), escape(summary))
    out.print(listing)
