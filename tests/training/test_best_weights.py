"""The weights of the best epoch: stored, loaded, and removed when no checkpoint needs them."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from scob.training.best_weights import best_file, load_best, remove_bests, save_best


def test_the_weights_of_an_epoch_come_back_and_frozen_ones_are_not_stored(tmp_path: Path) -> None:
    network = nn.Linear(3, 2)
    network.bias.requires_grad_(False)
    weight, bias = network.weight.detach().clone(), network.bias.detach().clone()
    save_best(tmp_path, 4, network)
    assert list(load_file(best_file(tmp_path, 4))) == ["weight"]
    network.weight.data.zero_()
    load_best(tmp_path, 4, network)
    assert torch.equal(network.weight, weight) and torch.equal(network.bias, bias)


def test_only_needed_epochs_stay(tmp_path: Path) -> None:
    for epoch in (0, 3, 12):
        save_best(tmp_path, epoch, nn.Linear(1, 1))
    (tmp_path / "other.safetensors").write_bytes(b"")
    remove_bests(tmp_path, [None, 3, 99])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-000003.safetensors", "other.safetensors"]
