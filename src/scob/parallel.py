"""Several processes acting as one: sums and gathers keep every process on the same step.

`accelerate` starts the processes and moves the tensors. Gradients are summed here, not by a wrapper, because a step
differentiates twice and the weights of a batch already sum to 1 over all processes.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from scob.errors import UserError


class OtherProcessFailed(SystemExit):
    """This process stops because another one failed; the other one prints the reason."""

    def __init__(self) -> None:
        super().__init__(2)


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

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes, without a gradient."""
        if self.count == 1:
            return value.detach()
        summed: Tensor = self.accelerator.reduce(value.detach().clone(), reduction="sum")
        return summed

    def collect(self, value: Tensor) -> Tensor:
        """The sum over all processes; its gradient flows only into this process's part."""
        return value if self.count == 1 else value + (self.total(value) - value.detach())

    def gather(self, rows: Tensor) -> Tensor:
        """All rows of a step, in the order a single process would have them (padding comes last).

        A global batch is dealt to the processes like cards, one row each in turn, so it is collected in the same order.
        """
        if self.count == 1:
            return rows
        dealt = self.concatenate(rows)
        return dealt.view(self.count, len(rows), *rows.shape[1:]).transpose(0, 1).flatten(0, 1)

    def concatenate(self, rows: Tensor) -> Tensor:
        """The rows of all processes, which must be equally many, one process after another."""
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

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of the first process, so that all start with the same bits."""
        if self.count > 1:
            from torch.distributed import broadcast

            for tensor in tensors:
                received = tensor.contiguous()
                broadcast(received, 0)
                tensor.copy_(received)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """For work that only some processes do (check a folder, write a file): if it fails in one, all of them stop."""
        failure: BaseException | None = None
        try:
            yield
        except Exception as error:
            failure = error
        if self.count > 1:
            failed = self.total(torch.tensor(0.0 if failure is None else 1.0, device=self.device))
            if failed.item() and failure is None:
                raise OtherProcessFailed
        if failure is not None:
            raise failure

    def check_equal(self, tensors: Mapping[str, Tensor]) -> None:
        """Compare a hash of each tensor across all processes; a RuntimeError names the first that differs."""
        if self.count == 1:
            return
        names = sorted(tensors)
        codes = torch.tensor([code_of(tensors[name]) for name in names], dtype=torch.int64, device=self.device)
        everyone = self.concatenate(codes[None])
        different = (everyone != everyone[:1]).any(dim=0)
        if different.any():
            raise RuntimeError(f"the processes disagree on {names[int(different.int().argmax())]}")

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


def code_of(tensor: Tensor) -> int:
    """63 bits of the SHA-256 of a tensor's bytes."""
    raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
    return int.from_bytes(hashlib.sha256(raw).digest()[:8], "big") >> 1


def choose_device(name: str) -> torch.device:
    """The device with that name; 'auto' is this process's CUDA device, else Metal, else the CPU."""
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", rank % torch.cuda.device_count())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"there is no device {name!r}: use auto, cpu, cuda, cuda:1 or mps") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError("you asked for the device cuda, but torch finds no CUDA device here; use --device cpu")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError("you asked for the device mps, but torch finds no Metal device here; use --device cpu")
    return device


def device_name(device: torch.device) -> str:
    """`cpu`, `mps`, or a GPU with its model."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def unused_cuda() -> str | None:
    """What to say if torch was built for CUDA but finds no GPU: gigabytes that nothing uses; else None."""
    if torch.version.cuda is None or torch.cuda.is_available():
        return None
    return (
        f"This torch was built for CUDA {torch.version.cuda}, but finds no GPU here. If there is none, PyTorch's CPU "
        "build is gigabytes smaller: choose CPU at https://pytorch.org/get-started."
    )


def start(device: str = "auto") -> Processes:
    """Join the processes of `accelerate launch`, or be the only one, on the device with that name."""
    from accelerate import Accelerator

    requested = choose_device(device) if device != "auto" else None
    processes = Processes(Accelerator(cpu=requested is not None and requested.type == "cpu"))
    if requested is not None and processes.count == 1:
        processes.device = requested
    return processes
