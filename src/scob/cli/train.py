"""`scob train`: from a settings file, or straight from your own images, to a run folder with a model in it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scob.cli.console import command, duration, err, escape, note, out, prints, table
from scob.cli.options import Device, Separator, with_options
from scob.errors import UserError
from scob.files import free_path, named
from scob.launch import launch

if TYPE_CHECKING:
    from scob.config import Config
    from scob.training.prepare import Prepared


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "train", help="Train a model from a settings file or from your own images (Python: scob.prepare, scob.train)."
    )(with_options(train))


@dataclass(frozen=True)
class TrainOptions:
    """The options of `scob train`."""

    settings: Annotated[
        list[str] | None,
        typer.Argument(help="A settings file, or a built-in one by name (e.g. demo), then key=value settings."),
    ] = None
    images: Annotated[
        Path | None,
        typer.Option(help="Folder with one folder of images per class, a label table (CSV), or COCO, YOLO and others."),
    ] = None
    val: Annotated[
        Path | None, typer.Option(help="Table with complete labels, used only to report results; needs --images.")
    ] = None
    separator: Separator = ""
    backbone: Annotated[
        str, typer.Option(help="Hub name, folder, torchvision .pth file, or one that comes with Scob: photographs.")
    ] = ""
    device: Device = ""
    init: Annotated[Path | None, typer.Option(help="Start from this model; classes may be added or dropped.")] = None
    out_folder: Annotated[Path | None, typer.Option("--out", help="Run folder; runs/NAME by default.")] = None
    resume: Annotated[Path | None, typer.Option(help="Continue an interrupted run exactly where it stopped.")] = None
    extend: Annotated[str, typer.Option(help="With --resume: epochs=N trains for N epochs in total.")] = ""
    methods_folder: Annotated[Path | None, typer.Option(help="Folder with your own methods.")] = None


def train(options: TrainOptions) -> None:
    """Train one method; everything it writes is in the run folder."""
    from scob.cli.live import Live
    from scob.parallel import choose_device
    from scob.training.choose_backbone import choose_backbone
    from scob.training.continuation import config_from_model
    from scob.training.prepare import prepare
    from scob.training.resume import resume_config
    from scob.training.run_folder import RunFolder
    from scob.training.stopping import Interrupted
    from scob.training.train import SharedParts
    from scob.training.train import train as run

    o, words = options, list(options.settings or [])
    words += [f"data.separator={o.separator}"] if o.separator else []
    single_process = launch().count == 1
    check_combination(o, single_process)
    prepared: Prepared | None = None
    if o.methods_folder is not None:
        from scob.methods import register_folder

        register_folder(o.methods_folder)
    if o.resume is not None:
        config, folder = resume_config(o.resume, words, o.extend, o.device), o.resume
    elif o.images is not None:
        source = named(o.images)
        folder = o.out_folder or free_path(Path("runs", (source.name if source.is_dir() else source.stem) or "images"))
        if single_process:  # before anything is written into it; with several processes only the first one checks
            RunFolder(folder).check_free()
        backbone = o.backbone
        if not backbone and o.init is None and not any(word.startswith("model.backbone=") for word in words):
            backbone, reason = choose_backbone(choose_device(o.device or "auto"))
            if reason and prints():
                note(reason)
        show_layouts(o, words)
        prepared = prepare(
            o.images, o.val, backbone, o.device or "auto", init=o.init, out=folder, overrides=words
        )  # fmt: skip
        config = prepared.config
        show_prepared(prepared, folder)
    else:
        config = read_config(words, o.backbone, o.device)
        name = Path(config.data.source).name.replace(":", "-")
        folder = o.out_folder or free_path(Path("runs", f"{config.method}-{name}"))
        if o.init is not None:
            RunFolder(folder).check_free()
            config = config_from_model(config, o.init, folder, [word for word in words if "=" in word])
    with Live(config.method) as live:
        try:
            finished = run(
                config,
                folder,
                resume=o.resume is not None,
                init=o.init,
                listen=live,
                shared=SharedParts(prepared.data if prepared is not None else None),
            )
        except Interrupted as stop:
            live.stop()
            if prints():
                begun = RunFolder(folder).config_file.exists()
                again = f"Stopped and saved. Continue with: {command('train', '--resume', folder)}"
                note(again if begun else "Stopped before training began.")
            raise typer.Exit(stop.code) from None
    if prints():
        show(finished.summary, folder)


def show_layouts(options: TrainOptions, words: list[str]) -> None:
    """Say what the images and labels are taken for, before any image is read."""
    from scob.config import parse_overrides
    from scob.data.readers import taken_as
    from scob.data.split import ReadOptions

    asked = parse_overrides(words).get("data", {})
    reading = ReadOptions(separator=str(asked.get("separator", "auto")))
    for source, what in ((options.images, "taken as"), (options.val, "--val taken as")):
        if source is not None and source.exists() and prints():
            format = str(asked.get("format", "auto")) if source == options.images else "auto"
            note(f"{what}: {taken_as(str(source), reading, format)}")


def check_combination(options: TrainOptions, single_process: bool) -> None:
    """Refuse options that would be ignored or that contradict each other."""
    o = options
    if o.val is not None and o.images is None:
        raise UserError("--val needs --images; a settings file names its reported split with data.evaluate")
    if o.separator and o.images is None:
        raise UserError("--separator needs --images; a settings file names it with data.separator")
    if o.extend and o.resume is None:
        raise UserError("--extend needs --resume RUN")
    if o.init is not None and o.backbone:
        raise UserError("--init uses its model's own backbone: leave out --backbone")
    if o.init is not None and not single_process:
        raise UserError(
            "--init works in a single process only: start there, stop with Ctrl+C, then continue in several with "
            "--resume RUN"
        )
    if o.resume is not None and (o.images is not None or o.init is not None or o.out_folder is not None or o.backbone):
        raise UserError("--resume continues a run as it was: leave out --images, --init, --backbone and --out")


def read_config(words: list[str], backbone: str, device: str) -> "Config":
    """The settings: a file or the name of a packaged one first, then `key=value` words."""
    from scob import methods
    from scob.config import load_config
    from scob.presets import packaged_configs

    first = words[0] if words and "=" not in words[0] else None
    if first is None and not words:
        raise UserError(
            "name a settings file (scob train configs/demo.yaml) or your images (scob train --images photos/)"
        )
    path = None
    if first is not None:
        path = Path(first) if Path(first).is_file() else packaged_configs().get(first, Path(first))
    overrides = words[1:] if first is not None else list(words)
    overrides += [f"model.backbone={backbone}"] if backbone else []
    overrides += [f"train.device={device}"] if device else []
    return load_config(path, overrides, methods.section_names())


def show_prepared(prepared: "Prepared", folder: Path) -> None:
    """The settings chosen from the images, before training starts."""
    config = prepared.config
    out.print(
        table(
            "Settings chosen from your images",
            ("what", "value"),
            [
                ("images to learn from", f"{len(prepared.data.train):,}"),
                ("images held out to choose the epoch", f"{len(prepared.data.holdout or ()):,}"),
                ("classes", f"{prepared.classes:,}"),
                ("expected labels per image (k)", f"{config.labels.k:g} ({prepared.k_reason})"),
                ("input", f"{config.data.size} x {config.data.size}"),
                ("epochs x batch", f"{config.train.epochs} x {config.train.batch}"),
                ("backbone", config.model.backbone),
                ("run folder", str(folder)),
            ],
        )
    )
    for remark in prepared.notes:
        err.print(f"[yellow]note:[/] {escape(remark)}")
    if prepared.seconds is not None:
        out.print(f"This will take about {duration(prepared.seconds)} on this machine.")


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
    last = summary["curve"][-1] if summary["curve"] else {}
    for key in ("mAP-observed", "mAP-holdout-full"):
        if last.get(key) is not None:
            rows.append((f"{key} (held-out images, last epoch)", f"{last[key]:.2f}"))
    rows += [("time", duration(summary["seconds"])), ("run folder", str(folder)), ("model", str(folder / "model"))]
    out.print(table("Done", ("what", "value"), rows))
    following = command("predict", folder, "IMAGES"), command("recover", folder)
    out.print(f"Next:  {escape(following[0])}\n       {escape(following[1])}", highlight=False, soft_wrap=True)
