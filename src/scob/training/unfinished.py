"""A run that was stopped: the model of its best epoch so far, and how to end the run there."""

import json
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import Config
from scob.errors import UserError
from scob.files import write_atomically
from scob.model.load_backbone import load_backbone
from scob.model.preprocessing import preprocessing
from scob.training.best_weights import read_best
from scob.training.build import assemble
from scob.training.checkpoint import Checkpoint, latest_checkpoint, network_state
from scob.training.loop import Training
from scob.training.model_folder import write_model
from scob.training.results import card_of
from scob.training.run_folder import RunFolder

SO_FAR = "so-far"  # the model folder in the run folder
STATE = "epoch.json"


def checkpoint_of(run: RunFolder) -> Checkpoint:
    """The last checkpoint of a stopped run; a UserError if no epoch has been evaluated yet."""
    checkpoint = latest_checkpoint(run.checkpoints)
    if checkpoint is None or checkpoint.progress.best_epoch is None:
        raise UserError(
            f"the run in {run.path} is not finished, and was stopped before the end of its first epoch, so it has no "
            f"model yet: continue it with scob train --resume {run.path}"
        )
    return checkpoint


def write_so_far(path: Path) -> tuple[Path, str]:
    """The model folder of a stopped run's best epoch so far, written if it is not there, and a sentence about it."""
    run = RunFolder(path)
    checkpoint, config = checkpoint_of(run), run.read_config()
    progress, folder = checkpoint.progress, path / SO_FAR
    assert progress.best_epoch is not None
    state = {"epoch": progress.best_epoch, "digest": progress.best_digest}
    if _read_state(folder) != state:
        _write_best(run, config, checkpoint, folder)
        write_atomically(folder / STATE, json.dumps(state))
    bold = " Until then it may name too many labels." if methods.class_for(config).finishes() else ""
    return folder, (
        f"The run in {path} is not finished: this is the model of epoch {progress.best_epoch + 1}, the best of "
        f"{progress.epoch} so far ({config.train.epochs} were planned). scob train --resume {path} continues it; "
        f"with --finish it ends there.{bold}"
    )


def _read_state(folder: Path) -> Any:
    try:
        return json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_best(run: RunFolder, config: Config, checkpoint: Checkpoint, folder: Path) -> None:
    """Put the network together from its backbone, the checkpoint and the best epoch's weights."""
    config = methods.class_for(config).adjust(config)
    labels, progress = run.labels(), checkpoint.progress
    assert progress.best_epoch is not None
    backbone = load_backbone(config.model.backbone, config.model.freeze)
    grids = backbone.grids(config.data.size)
    network = assemble(config, backbone, labels, grids)
    network.load_state_dict(network_state(checkpoint.tensors), strict=False)
    network.load_state_dict(read_best(run.path, progress.best_epoch, progress.best_digest), strict=False)
    facts = {"labels": {"origin": labels.origin, "fingerprint": labels.fingerprint}}
    write_model(folder, network, card_of(config, network, labels.classes, preprocessing(config.model.backbone), facts))


def summary_so_far(run: RunFolder, config: Config) -> dict[str, Any]:
    """What the summary of a stopped run would say, as far as it is known."""
    progress = checkpoint_of(run).progress
    curve = run.curve()
    summary = {"method": config.method, "epochs": progress.epoch, "selected_epoch": progress.best_epoch, "curve": curve}
    return {**summary, "evaluation": {}} if any("mAP" in point for point in curve) else summary


def epochs_asked(folder: Path, extend: int | None) -> int | None:
    """After how many epochs a run ends early: `extend`, but never before what it has trained; None: as planned.

    Without `extend`, the run ends where it is.
    """
    run = RunFolder(folder)
    done = checkpoint_of(run).progress.epoch
    if extend is not None and extend >= run.read_config().train.epochs:
        return None
    return done if extend is None else max(done, extend)


def ending_after(epochs: int | None) -> type[Training]:
    """The training loop that ends after so many epochs; the schedule stays that of all the epochs planned."""
    if epochs is None:
        return Training
    ends_after = epochs

    class EndsEarly(Training):
        """A loop that ends before the last epoch planned."""

        @property
        def epochs(self) -> int:
            return ends_after

    return EndsEarly
