"""Several processes acting as one: sums and gathers keep every process on the same step.

`accelerate` starts the processes and moves the tensors. Gradients are summed here, not by a wrapper, because a step
differentiates twice and the weights of a batch already sum to 1 over all processes.
"""

import atexit
import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from scob.errors import UserError
from scob.launch import launch, peer_timeout


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
    rank = launch().local_rank
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
    """Join the processes that a launcher started, or be the only one, on the device with that name.

    How many there are is in the environment (`launch`). If torch forms a group of another size, that is an error.
    """
    from accelerate import Accelerator
    from accelerate.utils import InitProcessGroupKwargs

    we = launch()
    requested = choose_device(device) if device != "auto" else None
    # accelerate forms a group on CPUs only if it is told to use them
    cpu = requested.type == "cpu" if requested is not None else we.count > 1 and not torch.cuda.is_available()
    waiting = InitProcessGroupKwargs(timeout=timedelta(seconds=peer_timeout()))
    processes = Processes(Accelerator(cpu=cpu, kwargs_handlers=[waiting]))
    if (processes.count, processes.rank) != (we.count, we.rank):
        raise UserError(
            f"the launcher says that this is process {we.rank} of {we.count}, but torch.distributed says "
            f"{processes.rank} of {processes.count}: give --device cpu, or start Scob without the launcher"
        )
    if requested is not None and processes.count == 1:
        processes.device = requested
    if processes.count > 1:
        atexit.register(leave)
    return processes


def leave() -> None:
    """Leave the group of processes, if there is one: otherwise its threads may abort while Python ends."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        with contextlib.suppress(RuntimeError):  # the others may be gone already
            torch.distributed.destroy_process_group()


def is_broken_connection(error: RuntimeError) -> bool:
    """torch reports a lost peer as a plain RuntimeError (gloo) or a DistError; only the message gives it away."""
    words = ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "timed out", "socket", "peer")
    return type(error).__name__.startswith("Dist") or any(word in str(error).lower() for word in words)


def lost_peer(count: int) -> str:
    """The beginning of the sentence about a process that is lost."""
    return (
        f"one of the {count} processes of this run died, or did not answer for {peer_timeout()} seconds, so all of "
        "them stop"
    )
