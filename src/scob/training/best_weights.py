"""The weights of the best epoch so far, kept in the run folder until they become the model."""

from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import load_file, save
from torch import nn

from scob.files import write_atomically


def best_file(folder: Path, epoch: int) -> Path:
    """The file with the weights after that epoch."""
    return folder / f"best-{epoch:06d}.safetensors"


def save_best(folder: Path, epoch: int, network: nn.Module) -> None:
    """Write a network's trainable weights; frozen ones never change."""
    trained = {name: p.detach().cpu().contiguous() for name, p in network.named_parameters() if p.requires_grad}
    write_atomically(best_file(folder, epoch), save(trained))


def load_best(folder: Path, epoch: int, network: nn.Module) -> None:
    """Put the weights of that epoch back into the network."""
    network.load_state_dict(load_file(best_file(folder, epoch)), strict=False)


def remove_bests(folder: Path, needed: Iterable[int | None]) -> None:
    """Remove the weights of every epoch that is not `needed`."""
    wanted = {best_file(folder, epoch) for epoch in needed if epoch is not None}
    for path in folder.glob("best-*.safetensors"):
        if path not in wanted:
            path.unlink(missing_ok=True)
