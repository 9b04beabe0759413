"""What `scob train` says about a run: what the images are taken for, the settings chosen, and how it ended."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scob.cli.console import MEASURES, MEASURES_MAP, command, counted, duration, err, escape, note, out, prints, table

if TYPE_CHECKING:
    from scob.training.prepare import Prepared


def show_layouts(images: Path | None, val: Path | None, words: list[str]) -> None:
    """Say what the images and labels are taken for, before any image is read."""
    from scob.config import parse_overrides
    from scob.data.readers import taken_as
    from scob.data.split import ReadOptions

    asked = parse_overrides(words).get("data", {})
    reading = ReadOptions(separator=str(asked.get("separator", "auto")))
    for source, what in ((images, "taken as"), (val, "--val taken as")):
        if source is not None and source.exists() and prints():
            format = str(asked.get("format", "auto")) if source == images else "auto"
            note(f"{what}: {taken_as(str(source), reading, format)}")


def show_prepared(prepared: "Prepared", folder: Path) -> None:
    """The settings chosen from the images, before training starts."""
    config = prepared.config
    purpose = "to choose the epoch" if config.train.select == "holdout" else "for thresholds"
    out.print(
        table(
            "Settings chosen from your images",
            ("what", "value"),
            [
                ("images to learn from", f"{len(prepared.data.train):,}"),
                (f"images held out {purpose}", f"{len(prepared.data.holdout or ()):,}"),
                ("classes", f"{prepared.classes:,}"),
                ("expected labels per image (k)", f"{config.labels.k:g} ({prepared.k_reason})"),
                ("input", f"{config.data.size} x {config.data.size}"),
                ("method", config.method),
                ("epochs x batch", f"{config.train.epochs} x {config.train.batch}"),
                ("backbone", config.model.backbone),
                ("run folder", str(folder)),
            ],
        )
    )
    for remark in prepared.notes:
        err.print(f"[yellow]note:[/] {escape(remark)}")


def show_stopped(folder: Path) -> None:
    """The end of a run that was stopped: what it has, and what to do next."""
    from scob.training.run_folder import RunFolder

    run = RunFolder(folder)
    if not run.config_file.exists():
        note("Stopped before training began.")
        return
    epochs = len(run.records("epoch"))
    again = command("train", "--resume", folder)
    trained = f" after {counted(epochs, 'epoch')}" if epochs else ""
    note(f"Stopped and saved{trained}. Continue with: {again}")
    if epochs:
        note(f"The best epoch so far can be used: {command('predict', folder, 'IMAGES')}")
        note(f"To end the run there: {again} --finish")


def show(summary: dict[str, Any], folder: Path) -> None:
    """The end of a run: what it reached and what to do next."""
    evaluation = summary.get("evaluation") or {}
    rows = [("method", summary["method"]), ("epoch chosen", f"{summary['selected_epoch'] + 1} of {summary['epochs']}")]
    if evaluation.get("mAP") is not None:
        rates = evaluation["at_threshold"]
        split = f" ({summary['evaluate_split']})" if summary.get("evaluate_split") else ""
        rows.append((f"mAP on {summary['evaluate_images']:,} images{split}", f"{evaluation['mAP']:.2f}"))
        rows.append(("OF1 / CF1 at 0.5", f"{rates['OF1']:.1f} / {rates['CF1']:.1f}"))
    else:
        rows.append(("mAP", "not reported (no evaluation split)"))
    chosen: dict[str, Any] = next(
        (point for point in summary["curve"] if point.get("epoch") == summary["selected_epoch"]), {}
    )
    for key, by in (("mAP-observed", "the labels you gave"), ("mAP-holdout-full", "all their labels")):
        if chosen.get(key) is not None:
            rows.append((f"mAP on held-out images, by {by}", f"{chosen[key]:.2f}"))
    rows += [("time", duration(summary["seconds"])), ("run folder", str(folder)), ("model", str(folder / "model"))]
    out.print(table("Done", ("what", "value"), rows))
    out.print(MEASURES if evaluation.get("mAP") is not None else MEASURES_MAP, style="dim", highlight=False)
    following = command("predict", folder, "IMAGES"), command("recover", folder)
    out.print(f"Next:  {escape(following[0])}\n       {escape(following[1])}", highlight=False, soft_wrap=True)
