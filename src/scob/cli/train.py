"""`scob train`: from a settings file, or straight from your own images, to a run folder with a model in it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scob.cli.console import duration, note, out, prints
from scob.cli.options import Device, Separator, with_options
from scob.cli.run_report import show, show_layouts, show_prepared, show_stopped
from scob.errors import UserError
from scob.files import free_path, named
from scob.launch import launch

if TYPE_CHECKING:
    from scob.cli.live import Live
    from scob.config import Config
    from scob.training.finished_run import FinishedRun
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
    size: Annotated[
        int | None, typer.Option(min=16, max=4096, help="Side of the square input in pixels (data.size).")
    ] = None
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the images (train.epochs).")] = None
    batch: Annotated[int | None, typer.Option(min=1, help="Images per step (train.batch).")] = None
    device: Device = ""
    init: Annotated[Path | None, typer.Option(help="Start from this model; classes may be added or dropped.")] = None
    out_folder: Annotated[Path | None, typer.Option("--out", help="Run folder; runs/NAME by default.")] = None
    resume: Annotated[Path | None, typer.Option(help="Continue an interrupted run exactly where it stopped.")] = None
    extend: Annotated[
        str, typer.Option(help="With --resume: epochs=N ends after N epochs in total, more or fewer than planned.")
    ] = ""
    finish: Annotated[
        bool, typer.Option("--finish", help="With --resume: end the run now, with its best epoch so far.")
    ] = False
    methods_folder: Annotated[Path | None, typer.Option(help="Folder with your own methods.")] = None


def train(options: TrainOptions) -> None:
    """Train one method; everything it writes is in the run folder."""
    from scob.cli.live import Live

    check_combination(options, launch().count == 1)
    with Live("scob train") as live:
        try:
            finished = run_training(options, live)
        except KeyboardInterrupt:  # from here on, `scob.train` answers Ctrl+C
            live.stop()
            note("Stopped before training began.")
            raise typer.Exit(130) from None
    if prints():
        show(finished.summary, finished.path)


def run_training(options: TrainOptions, live: "Live") -> "FinishedRun":
    """Prepare the run, show what was chosen, train. Heavy imports happen here, while the bar is shown already."""
    from scob.parallel import unused_cuda
    from scob.training.resume import extended_epochs, resume_config
    from scob.training.stopping import Interrupted
    from scob.training.train import SharedParts
    from scob.training.train import train as run
    from scob.training.unfinished import ending_after, epochs_asked

    o, words = options, with_short_options(options)
    prepared: Prepared | None = None
    until: int | None = None
    if o.methods_folder is not None:
        from scob.methods import register_folder

        register_folder(o.methods_folder)
    if o.resume is not None:
        config, folder = resume_config(o.resume, words, o.extend, o.device), o.resume
        if o.finish or o.extend:
            until = epochs_asked(o.resume, None if o.finish else extended_epochs(o.extend))
    elif o.images is not None:
        prepared, folder = prepare_own_images(o, live)
        config = prepared.config
    else:
        config, folder = read_settings(o)
    if config.train.device == "auto" and prints() and (unused := unused_cuda()) is not None:
        note(unused)
    live.title = config.method
    try:
        return run(
            config, folder, resume=o.resume is not None, init=o.init, listen=live,
            shared=SharedParts(prepared.data if prepared is not None else None), loop=ending_after(until),
        )  # fmt: skip
    except Interrupted as stop:
        live.stop()
        if prints():
            show_stopped(folder)
        raise typer.Exit(stop.code) from None


def prepare_own_images(o: TrainOptions, live: "Live") -> "tuple[Prepared, Path]":
    """The settings for somebody's own images, shown before training, and the run folder."""
    from scob.parallel import choose_device
    from scob.training.choose_backbone import choose_backbone
    from scob.training.prepare import prepare
    from scob.training.run_folder import RunFolder
    from scob.training.run_time import estimate_seconds

    assert o.images is not None
    words, source = with_short_options(o), named(o.images)
    folder = o.out_folder or free_path(Path("runs", (source.name if source.is_dir() else source.stem) or "images"))
    if launch().count == 1:  # before anything is written into it; with several processes only the first one checks
        RunFolder(folder).check_free()
    backbone = o.backbone
    if not backbone and o.init is None and not any(word.startswith("model.backbone=") for word in words):
        backbone, reason = choose_backbone(choose_device(o.device or "auto"))
        if reason and prints():
            note(reason)
    show_layouts(o.images, o.val, words)
    prepared = prepare(
        o.images, o.val, backbone, o.device or "auto", init=o.init, out=folder, overrides=words, estimate=False,
        listen=live,
    )  # fmt: skip
    with live.hidden():
        show_prepared(prepared, folder)
    seconds = estimate_seconds(prepared.config, prepared.data, live)
    if seconds is not None:
        live.expected = time.monotonic() + seconds
        with live.hidden():
            out.print(f"This will take about {duration(seconds)} on this machine.")
    return prepared, folder


def read_settings(o: TrainOptions) -> "tuple[Config, Path]":
    """The settings of a settings file, and the run folder."""
    from scob.training.continuation import config_from_model
    from scob.training.run_folder import RunFolder

    words = with_short_options(o)
    config = read_config(words, o.backbone, o.device)
    name = Path(config.data.source).name.replace(":", "-")
    folder = o.out_folder or free_path(Path("runs", f"{config.method}-{name}"))
    if o.init is not None:
        RunFolder(folder).check_free()
        config = config_from_model(config, o.init, folder, [word for word in words if "=" in word])
    return config, folder


def with_short_options(o: TrainOptions) -> list[str]:
    """The settings on the command line, with --size, --epochs, --batch and --separator written as settings."""
    given = {
        "data.size": o.size,
        "train.epochs": o.epochs,
        "train.batch": o.batch,
        "data.separator": o.separator or None,
    }
    return [*(o.settings or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]


def check_combination(options: TrainOptions, single_process: bool) -> None:
    """Refuse options that would be ignored or that contradict each other."""
    o = options
    if o.val is not None and o.images is None:
        raise UserError("--val needs --images; a settings file names its reported split with data.evaluate")
    if o.separator and o.images is None:
        raise UserError("--separator needs --images; a settings file names it with data.separator")
    if (o.extend or o.finish) and o.resume is None:
        raise UserError(f"{'--extend' if o.extend else '--finish'} needs --resume RUN")
    if o.extend and o.finish:
        raise UserError("--finish ends the run now, --extend later: give one of them")
    if o.init is not None and o.backbone:
        raise UserError("--init uses its model's own backbone: leave out --backbone")
    if o.init is not None and not single_process:
        raise UserError(
            "--init works in a single process only: start there, stop with Ctrl+C, then continue in several with "
            "--resume RUN"
        )
    if o.resume is not None and (o.images is not None or o.init is not None or o.out_folder is not None or o.backbone):
        raise UserError("--resume continues a run as it was: leave out --images, --init, --backbone and --out")
    if o.resume is not None and (o.size, o.epochs, o.batch) != (None, None, None):
        raise UserError(
            "--resume continues a run as it was: leave out --size, --epochs and --batch; to train "
            "longer, use --extend epochs=N"
        )


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
