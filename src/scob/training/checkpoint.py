"""Checkpoints that survive a kill at any instruction: one file each, whole or absent, with its own digest."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from scob.errors import UserError
from scob.files import write_atomically

FORMAT = "scob-checkpoint-1"
KEPT = 2


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        total.update(tensor.flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> Path:
    """Write `step-N.safetensors`, then drop all but the last two."""
    path = folder / f"step-{step:09d}.safetensors"
    host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "digest": digest(host), "progress": json.dumps(progress)}
    write_atomically(path, save(host, metadata=metadata))
    for old in list_checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and progress of one file; UserError where it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise UserError(f"{path} is not a checkpoint of this version of Scob")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if digest(tensors) != metadata["digest"]:
            raise UserError(f"{path} is damaged: its contents do not match its digest")
        return tensors, json.loads(metadata["progress"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def progress_of(path: Path) -> dict[str, Any]:
    """Only the progress of a checkpoint; {} where the file cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            found: dict[str, Any] = json.loads((file.metadata() or {})["progress"])
            return found
    except (SafetensorError, OSError, KeyError, ValueError):
        return {}


def latest_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[str]] | None:
    """The newest checkpoint that is whole, and a line for every newer one that was not; None where there is none."""
    complaints: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            tensors, progress = read_checkpoint(path)
            return tensors, progress, complaints
        except UserError as error:
            complaints.append(str(error))
    if complaints:
        raise UserError(f"no checkpoint in {folder} is whole: {complaints[0]}; start the run again in a new folder")
    return None
