"""`scob train`: from settings, or straight from somebody's images, to a run folder with a model in it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scob.cli.console import command, err, escape, out, table
from scob.errors import UserError
from scob.files import free_path, named

if TYPE_CHECKING:
    from scob.config import Config
    from scob.training.prepare import Prepared


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        "train", help="Train a model from settings, or from images or a label table (Python: scob.prepare, scob.train)."
    )(train)


def train(
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="A settings file (or the name of a packaged one, such as demo), then key=value words."),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="A folder with one folder of images per class, or a CSV.")] = None,
    val: Annotated[Path | None, typer.Option(help="A fully labelled table to report on, with --images.")] = None,
    backbone: Annotated[str, typer.Option(help="Hub name, folder, torchvision .pth file, or 'drawings'.")] = "",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "",
    init: Annotated[Path | None, typer.Option(help="Continue from this model; classes may come and go.")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="The run folder; runs/NAME if left out.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted run, exactly.")] = None,
    extend: Annotated[str, typer.Option(help="With --resume: epochs=N trains longer than first asked.")] = "",
    methods_folder: Annotated[Path | None, typer.Option(help="A folder with methods of your own.")] = None,
) -> None:
    """Train one method; everything it leaves is in the run folder."""
    from scob.cli.live import Live
    from scob.training.continuation import continuing
    from scob.training.prepare import DEFAULT_BACKBONE, next_commands, prepare
    from scob.training.resume import resume_config
    from scob.training.run_folder import RunFolder
    from scob.training.stopping import Interrupted
    from scob.training.train import Shared
    from scob.training.train import train as run

    words = settings or []
    if val is not None and images is None:
        raise UserError("--val goes with --images; a settings file names its reported split with data.evaluate")
    if extend and resume is None:
        raise UserError("--extend goes with --resume RUN")
    if init is not None and backbone:
        raise UserError("--init brings the backbone of its model: leave out --backbone")
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    if init is not None and not alone:
        raise UserError(
            "--init begins a run in one process: stop it there with Ctrl-C, then go on with --resume RUN in several"
        )
    prepared: Prepared | None = None
    if methods_folder is not None:
        from scob.methods import register_folder

        register_folder(methods_folder)
    if resume is not None:
        if images is not None or init is not None or out_folder is not None or backbone:
            raise UserError(
                "--resume goes on with a run as it was: it takes no --images, no --init, no --backbone and no --out"
            )
        config, folder = resume_config(resume, words, extend, device), resume
    elif images is not None:
        place = named(images)
        folder = out_folder or free_path(Path("runs", (place.name if place.is_dir() else place.stem) or "images"))
        if alone:  # before anything is written into it; of several processes the first one looks, and speaks
            RunFolder(folder).check_free()
        prepared = prepare(
            images, val, backbone or DEFAULT_BACKBONE, device or "auto", init=init, out=folder, overrides=words
        )
        config = prepared.config
        tell(prepared, folder)
    else:
        config = read_settings(words, backbone, device)
        source = Path(config.data.source).name.replace(":", "-")
        folder = out_folder or free_path(Path("runs", f"{config.method}-{source}"))
        if init is not None:
            RunFolder(folder).check_free()
            config = continuing(config, init, folder, [word for word in words if "=" in word])
    with Live(config.method) as live:
        try:
            finished = run(
                config,
                folder,
                resume=resume is not None,
                init=init,
                listen=live,
                shared=Shared(prepared.data if prepared is not None else None),
            )
        except Interrupted as stop:
            live.stop()
            if speaks():
                again = f"Stopped and saved. Go on with: {command('train', '--resume', folder)}"
                begun = RunFolder(folder).config_file.exists()
                err.print(escape(again if begun else "Stopped before anything was begun."), soft_wrap=True)
            raise typer.Exit(stop.code) from None
    if speaks():
        show(finished.summary, folder, next_commands(folder))


def speaks() -> bool:
    """Whether this process prints: of several that `accelerate launch` or `torchrun` started, the first."""
    return os.environ.get("RANK", "0") == "0"


def read_settings(words: list[str], backbone: str, device: str) -> "Config":
    """A settings file or packaged name first, then `key=value` words."""
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
    rest = words[1:] if first is not None else words
    rest += [f"model.backbone={backbone}"] if backbone else []
    rest += [f"train.device={device}"] if device else []
    return load_config(path, rest, methods.section_names())


def tell(prepared: "Prepared", folder: Path) -> None:
    """What was read off the images, before anything starts."""
    config = prepared.config
    out.print(
        table(
            "Settings chosen from your images",
            ("what", "value"),
            [
                ("images to learn from", f"{len(prepared.data.train):,}"),
                ("held out to choose the epoch", f"{len(prepared.data.holdout or ()):,}"),
                ("classes", f"{prepared.classes:,}"),
                ("labels an image is expected to have (k)", f"{config.labels.k:g} ({prepared.k_reason})"),
                ("input", f"{config.data.size} x {config.data.size}"),
                ("epochs x batch", f"{config.train.epochs} x {config.train.batch}"),
                ("backbone", config.model.backbone),
                ("run folder", str(folder)),
            ],
        )
    )
    for note in prepared.notes:
        err.print(f"[yellow]note:[/] {escape(note)}")
    if prepared.seconds is not None:
        out.print(f"This will take about {duration(prepared.seconds)} on this machine.")


def duration(seconds: float) -> str:
    """Seconds in words a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def show(summary: dict[str, Any], folder: Path, following: tuple[str, str]) -> None:
    """The end of a run: what it reached and what to do next."""
    measured = summary.get("evaluation") or {}
    rows = [("method", summary["method"]), ("epoch chosen", f"{summary['selected_epoch'] + 1} of {summary['epochs']}")]
    if measured.get("mAP") is not None:
        rows.append((f"mAP on {summary['evaluate_images']:,} images", f"{measured['mAP']:.2f}"))
        rows.append(
            ("OF1 / CF1 at 0.5", f"{measured['at_threshold']['OF1']:.1f} / {measured['at_threshold']['CF1']:.1f}")
        )
    last = summary["curve"][-1] if summary["curve"] else {}
    for key in ("mAP-observed", "mAP-holdout-full"):
        if last.get(key) is not None:
            rows.append((f"{key} (held-out images, last epoch)", f"{last[key]:.2f}"))
    rows += [("time", duration(summary["seconds"])), ("run folder", str(folder)), ("model", str(folder / "model"))]
    out.print(table("Done", ("what", "value"), rows))
    out.print(f"Next:  {escape(following[0])}\n       {escape(following[1])}", highlight=False, soft_wrap=True)
