"""The weights of the best epoch: stored, loaded, and removed when no checkpoint needs them."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from scob.errors import UserError
from scob.training.best_weights import best_file, read_best, remove_bests, save_best, trained_tensors
from scob.training.checkpoint import digest


def test_the_weights_of_an_epoch_come_back_and_frozen_ones_are_not_stored(tmp_path: Path) -> None:
    network = nn.Linear(3, 2)
    network.bias.requires_grad_(False)
    weight, bias = network.weight.detach().clone(), network.bias.detach().clone()
    code = save_best(tmp_path, 4, network)
    assert code == digest(trained_tensors(network))
    assert list(load_file(best_file(tmp_path, 4))) == ["weight"]
    network.weight.data.zero_()
    network.load_state_dict(read_best(tmp_path, 4, code), strict=False)
    assert torch.equal(network.weight, weight) and torch.equal(network.bias, bias)


def test_only_needed_epochs_stay(tmp_path: Path) -> None:
    for epoch in (0, 3, 12):
        save_best(tmp_path, epoch, nn.Linear(1, 1))
    (tmp_path / "other.safetensors").write_bytes(b"")
    remove_bests(tmp_path, [None, 3, 99])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-000003.safetensors", "other.safetensors"]


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "missing"])
def test_damaged_weights_are_refused_and_named(tmp_path: Path, damage: str) -> None:
    code = save_best(tmp_path, 4, nn.Linear(3, 2))
    path = best_file(tmp_path, 4)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes({"bit": bytes(raw), "cut": bytes(raw[:-4])}.get(damage, b""))
    if damage == "missing":
        path.unlink()
    with pytest.raises(UserError, match=r"best-000004.safetensors is (damaged|missing)"):
        read_best(tmp_path, 4, code)


def test_weights_of_an_earlier_version_have_no_digest_and_are_taken_as_they_are(tmp_path: Path) -> None:
    network = nn.Linear(3, 2)
    save_file(trained_tensors(network), best_file(tmp_path, 4))
    assert torch.equal(read_best(tmp_path, 4, None)["weight"], network.weight)
