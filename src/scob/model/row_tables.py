"""Tables with one row per image: on the device, in host memory, or in a mapped file if host memory is too small.

A step touches only its batch's rows, so the rest cost space, not time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scob.errors import UserError

CHUNK = 1 << 16


@dataclass(frozen=True)
class RowStorage:
    """Where tables are kept: `kind` is device, host or disk. Tables on disk are files in `folder`."""

    kind: str = "device"
    folder: Path | None = None
    setting: str = "train.rows"  # named in errors

    def table(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | None) -> Tensor:
        """A table of zeros. A mapped file is always created anew: a run restores it from its checkpoints."""
        if self.kind == "device":
            return torch.zeros(shape, dtype=dtype, device=device)
        if self.kind == "host":
            return torch.zeros(shape, dtype=dtype)
        if self.folder is None:
            raise UserError(f"{self.setting}=disk needs a run folder to write to")
        path = self.folder / f"{name}.rows"
        count = torch.Size(shape).numel()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            with path.open("wb") as file:
                file.truncate(count * dtype.itemsize)  # sparse: zeros take no space until they are written
        except OSError as error:
            raise UserError(f"cannot create {path} for {self.setting}=disk: {error.strerror or error}") from error
        return torch.from_file(str(path), shared=True, size=count, dtype=dtype).view(shape)


class RowModule(nn.Module):
    """A module whose tables stay where they are when the rest of a network moves to another device."""

    def __init__(self, storage: RowStorage) -> None:
        super().__init__()
        self.storage = storage

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        return super()._apply(fn, recurse) if self.storage.kind == "device" else self  # type: ignore[no-untyped-call]
