"""Reading and comparing the weights that runs leave."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


def trained_weights(run: Path) -> dict[str, Tensor]:
    """The weights of a finished run's model folder."""
    return load_file(run / "model" / "model.safetensors")


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal names and equal bits."""
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
