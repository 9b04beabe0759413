"""Tables with a row an image: on the device, in host memory, or in a mapped file where host memory ends.

A step touches the rows of its batch only, so where the rest lies costs room, not time.
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
class RowPlace:
    """Where tables go: `kind` is device, host or disk; files of disk tables are made in `folder`."""

    kind: str = "device"
    folder: Path | None = None

    def table(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | None) -> Tensor:
        """A table of zeros. A mapped file is made anew: what a run needs of it is in its checkpoints."""
        if self.kind == "device":
            return torch.zeros(shape, dtype=dtype, device=device)
        if self.kind == "host":
            return torch.zeros(shape, dtype=dtype)
        if self.folder is None:
            raise UserError("train.rows=disk needs a run folder to write to")
        path = self.folder / f"{name}.rows"
        count = torch.Size(shape).numel()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            with path.open("wb") as file:
                file.truncate(count * dtype.itemsize)  # sparse: zeros take no room until they are written
        except OSError as error:
            raise UserError(f"cannot make {path} for train.rows=disk: {error.strerror or error}") from error
        return torch.from_file(str(path), shared=True, size=count, dtype=dtype).view(shape)


class RowModule(nn.Module):
    """A module whose tables stay where they were put when the rest of a network moves."""

    def __init__(self, place: RowPlace) -> None:
        super().__init__()
        self.place = place

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        return super()._apply(fn, recurse) if self.place.kind == "device" else self  # type: ignore[no-untyped-call]
