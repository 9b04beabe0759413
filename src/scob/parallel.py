"""Many processes as one: what must be summed or gathered so that every process takes the same step.

`accelerate` brings the processes up and moves the tensors. Gradients are summed here, not by a wrapper, because a
step differentiates twice and the weights of a batch already sum to 1 over all processes.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from scob.errors import UserError


class Processes:
    """The processes of a run, seen from one of them."""

    def __init__(self, accelerator: Any = None) -> None:
        self.accelerator = accelerator
        self.count: int = accelerator.num_processes if accelerator is not None else 1
        self.rank: int = accelerator.process_index if accelerator is not None else 0
        self.device: torch.device = accelerator.device if accelerator is not None else torch.device("cpu")

    @property
    def first(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def collect(self, value: Tensor) -> Tensor:
        """The sum over all processes, whose gradient flows to this process's part only."""
        if self.count == 1:
            return value
        total: Tensor = self.accelerator.reduce(value.detach(), reduction="sum")
        return value + (total - value.detach())

    def gather(self, rows: Tensor) -> Tensor:
        """Equally many rows of every process, one after another in the order of the processes."""
        return rows if self.count == 1 else self.accelerator.gather(rows.contiguous())

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace each gradient by its sum over all processes, in one message."""
        if self.count == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = self.accelerator.reduce(torch.cat([g.flatten() for g in gradients]), reduction="sum")
        for gradient, summed in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(summed.view_as(gradient))

    def wait(self) -> None:
        """Until everybody is here."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


def start(device: str = "auto") -> Processes:
    """Join the processes of `accelerate launch`, or be the only one, on the device that was asked for."""
    from accelerate import Accelerator

    try:
        wanted = torch.device(device) if device != "auto" else None
    except RuntimeError:
        raise UserError(f"there is no device {device!r}: use auto, cpu, cuda, cuda:1 or mps") from None
    if wanted is not None and wanted.type == "cuda" and not torch.cuda.is_available():
        raise UserError("train.device=cuda, but torch sees no CUDA device here; use --device cpu")
    if wanted is not None and wanted.type == "mps" and not torch.backends.mps.is_available():
        raise UserError("train.device=mps, but torch sees no Metal device here; use --device cpu")
    processes = Processes(Accelerator(cpu=wanted is not None and wanted.type == "cpu"))
    if wanted is not None and processes.count == 1:
        processes.device = wanted
    return processes
