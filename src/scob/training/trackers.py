"""Where losses and measurements go beside the run's own log: `train.tracker`, through accelerate."""

from pathlib import Path
from typing import Any

from scob.config import Config
from scob.errors import UserError
from scob.installation import install_packages, is_installed

PROJECT = "scob"  # the project in Weights & Biases, the experiment in MLflow


def open_tracker(config: Config, run: Path) -> Any:
    """A started tracker of accelerate, with the run's settings, for the process that writes; None for `none`."""
    name = config.train.tracker
    if name == "none":
        return None
    check_tracker(name)
    from accelerate import tracking

    if name == "tensorboard":
        tracker = tracking.TensorBoardTracker("tensorboard", logging_dir=str(run))
    elif name == "wandb":
        tracker = tracking.WandBTracker(PROJECT, name=run.name, dir=str(run))
    else:
        tracker = tracking.MLflowTracker(PROJECT, run_name=run.name)
    try:
        tracker.start()
        if name != "tensorboard":  # it would open a table of its own for them
            tracker.store_init_configuration(flat_settings(config))
    except Exception as error:  # not logged in, no server, no network: each package has its own exceptions
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(
            f"train.tracker={name} cannot start ({reason}): set {name} up as its own documentation says, or use "
            "train.tracker=tensorboard or none"
        ) from error
    return tracker


def check_tracker(name: str) -> None:
    """A UserError if the tracker's package is not installed; each has the name of its package."""
    if name != "none" and not is_installed(name):
        raise UserError(
            f"train.tracker={name} needs the package {name}, which is not installed: {install_packages([name])}, or "
            "use train.tracker=none"
        )


def flat_settings(config: Config) -> dict[str, str | int | float | bool]:
    """Every setting under its dotted name."""
    flat: dict[str, str | int | float | bool] = {}
    for section, value in config.model_dump(mode="json").items():
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, each in entries:
            name = f"{section}.{key}" if key else section
            flat[name] = each if isinstance(each, str | int | float | bool) else str(each)
    return flat
