"""The weights of the best epoch so far, kept in the run folder until they become the model."""

from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from scob.errors import UserError
from scob.files import write_atomically
from scob.tensor_file import RawTensor, file_pieces
from scob.training.checkpoint import digest


def best_file(folder: Path, epoch: int) -> Path:
    """The file with the weights after that epoch."""
    return folder / f"best-{epoch:06d}.safetensors"


def trained_tensors(network: nn.Module) -> dict[str, Tensor]:
    """A network's trainable weights on the CPU; frozen ones never change."""
    return {name: p.detach().cpu().contiguous() for name, p in network.named_parameters() if p.requires_grad}


def save_best(folder: Path, epoch: int, network: nn.Module) -> str:
    """Write a network's trainable weights, with their digest, which is returned."""
    trained = trained_tensors(network)
    code = digest(trained)
    stored = {name: RawTensor.of_torch(p) for name, p in trained.items()}
    write_atomically(best_file(folder, epoch), file_pieces(stored, {"digest": code}))
    return code


def read_best(folder: Path, epoch: int, expected: str | None) -> dict[str, Tensor]:
    """The weights of that epoch; a UserError if they are damaged, missing, or not those with the `expected` digest.

    An earlier version wrote no digests: without `expected`, the weights are taken as they are.
    """
    path = best_file(folder, epoch)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    if expected is not None and digest(tensors) != expected:
        raise UserError(f"{path} is damaged: its contents are not those that the checkpoint names")
    return tensors


def remove_bests(folder: Path, needed: Iterable[int | None]) -> None:
    """Remove the weights of every epoch that is not `needed`."""
    wanted = {best_file(folder, epoch) for epoch in needed if epoch is not None}
    for path in folder.glob("best-*.safetensors"):
        if path not in wanted and path.is_file():
            path.unlink(missing_ok=True)
