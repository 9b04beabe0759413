"""Checkpoints that survive a kill at any instruction: one file each, complete or absent, with its own digest.

Only this file knows how the state of a run is named inside a checkpoint.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from scob.algorithm.method import Method
from scob.errors import UserError
from scob.files import free_path, write_atomically
from scob.tensor_file import RawTensor, file_pieces
from scob.training.averaging import Average
from scob.training.optimise import AdamOptimiser

FORMAT = "scob-checkpoint-2"
UNSEALED = "scob-checkpoint-1"  # an earlier version: its digest covers only the tensors
KEPT = 2
NAME = re.compile(r"step-(\d{9,18})\.safetensors", re.ASCII)
METHOD, ADAM, AVERAGE, SUM = "method.", "adam.", "average.", "sum."


@dataclass
class Progress:
    """How far a run has got. `log` is the size of its log in bytes, `count` the steps since the last log line.

    `seconds` is the time it took, over all the times it was started; an earlier version did not count it. The
    digests are those of the best epoch's weights and of the log as it was.
    """

    epoch: int = 0
    step: int = 0
    log: int = 0
    best: float | None = None
    best_epoch: int | None = None
    count: int = 0
    best_digest: str | None = None
    log_digest: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Origin:
    """Which run a checkpoint is of: settings (YAML), fingerprint of the labels, digest of the frozen weights."""

    settings: str
    labels: str
    frozen: str


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory. `complaints` say why newer ones could not be used.

    A checkpoint of an earlier version does not say which run it is of: its `origin` is None.
    """

    tensors: dict[str, Tensor]
    progress: Progress
    complaints: tuple[str, ...] = ()
    origin: Origin | None = None


Judge = Callable[[Checkpoint], str]  # why a checkpoint is not one of this run; '' if it is


def pack(method: Method, optimiser: AdamOptimiser, average: Average, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor a resumed run needs. The weights of a frozen backbone are in its own file."""
    frozen = {f"network.{name}" for name, p in method.network.named_parameters() if not p.requires_grad}
    tensors = {f"{METHOD}{k}": v for k, v in method.state_dict().items() if k not in frozen}
    tensors |= {f"{ADAM}{k}": v for k, v in optimiser.state().items()}
    tensors |= {f"{AVERAGE}{number}": v for number, v in enumerate(average.averages)}
    tensors |= {f"{SUM}{k}": v for k, v in sums.items()}
    return tensors


def unpack(
    tensors: Mapping[str, Tensor], method: Method, optimiser: AdamOptimiser, average: Average
) -> dict[str, Tensor]:
    """Put the tensors of a checkpoint back where `pack` took them from; returns the sums of losses."""
    keys = method.load_state_dict(_part(tensors, METHOD), strict=False)
    if keys.unexpected_keys:
        raise UserError(f"the checkpoint contains {keys.unexpected_keys[0]}, which does not belong to these settings")
    optimiser.load(_part(tensors, ADAM))
    for number, value in enumerate(average.averages):
        value.copy_(tensors[f"{AVERAGE}{number}"])
    return {name: value.to(method.problem.device) for name, value in _part(tensors, SUM).items()}


def backbone_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The backbone's part of a checkpoint: its BatchNorm statistics and the stages that are trained."""
    return _part(tensors, f"{METHOD}network.backbone.")


def network_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The network's part of a checkpoint, without the weights of a frozen backbone."""
    return _part(tensors, f"{METHOD}network.")


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        stored = RawTensor.of_torch(tensors[name])
        total.update(f"{name}|{tensors[name].dtype}|{stored.shape}|".encode())
        total.update(stored.content)
    return total.hexdigest()


def seal(tensors: str, progress: str, origin: str) -> str:
    """SHA-256 over everything a checkpoint says: the digest of its tensors, its progress, its origin."""
    return hashlib.sha256("\n".join((tensors, progress, origin)).encode()).hexdigest()


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], progress: Progress, origin: Origin | None = None
) -> Path:
    """Write `step-N.safetensors`, then remove those before the last two. Files with higher numbers are not touched."""
    path = folder / f"step-{progress.step:09d}.safetensors"
    host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"digest": digest(host), "progress": json.dumps(asdict(progress))}
    metadata["origin"] = json.dumps(asdict(origin) if origin is not None else None)
    metadata |= {"format": FORMAT, "seal": seal(metadata["digest"], metadata["progress"], metadata["origin"])}
    if path.is_dir():
        path.rename(free_path(path.with_name(f"not-a-checkpoint-{path.name}")))
    stored = {name: RawTensor.of_torch(tensor) for name, tensor in host.items()}
    write_atomically(path, file_pieces(stored, metadata))
    for old in [p for p in list_checkpoints(folder) if step_of(p) <= progress.step][:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def step_of(path: Path) -> int:
    """The step in a checkpoint's name; -1 if it is not the name of a checkpoint."""
    match = NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first. Folders, and files whose names are not those of checkpoints, are left out."""
    return sorted((p for p in folder.glob("step-*") if step_of(p) >= 0 and p.is_file()), key=step_of)


def set_aside(folder: Path) -> int:
    """Rename checkpoints that an earlier run left in the folder of a new one; returns how many."""
    left = list_checkpoints(folder)
    for path in left:
        path.rename(free_path(path.with_name(f"earlier-{path.name}")))
    return len(left)


def read_checkpoint(path: Path) -> Checkpoint:
    """One file; a UserError if it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") not in (FORMAT, UNSEALED):
                raise UserError(f"{path} is not a checkpoint of this version of Scob")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if digest(tensors) != metadata["digest"]:
            raise UserError(f"{path} is damaged: its contents do not match its digest")
        progress = Progress(**json.loads(metadata["progress"]))
        if metadata["format"] == UNSEALED:
            return Checkpoint(tensors, progress)
        if seal(metadata["digest"], metadata["progress"], metadata["origin"]) != metadata["seal"]:
            raise UserError(f"{path} is damaged: its progress or settings do not match its digest")
        origin = json.loads(metadata["origin"])
        return Checkpoint(tensors, progress, origin=None if origin is None else Origin(**origin))
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def best_epoch_of(path: Path) -> int | None:
    """The best epoch that a checkpoint names; None if there is none or the file cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            stored: dict[str, Any] = json.loads((file.metadata() or {})["progress"])
            return stored.get("best_epoch")
    except (SafetensorError, OSError, KeyError, ValueError, AttributeError, RecursionError):
        return None


def latest_checkpoint(folder: Path, judge: Judge = lambda checkpoint: "") -> Checkpoint | None:
    """The newest whole checkpoint that `judge` does not object to, with a complaint about every newer one.

    None if there are no checkpoints.
    """
    complaints: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            checkpoint = read_checkpoint(path)
        except UserError as error:
            complaints.append(str(error))
            continue
        objection = judge(checkpoint)
        if checkpoint.progress.step != step_of(path):
            objection = f"is of step {checkpoint.progress.step}"
        if not objection:
            return replace(checkpoint, complaints=tuple(complaints))
        complaints.append(f"{path} is not used: it {objection}")
    if complaints:
        raise UserError(f"no checkpoint in {folder} can be used: {complaints[0]}; start the run again in a new folder")
    return None
