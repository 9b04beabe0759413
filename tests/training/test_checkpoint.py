"""Checkpoints: what is saved comes back, and damaged files are passed over."""

from pathlib import Path

import pytest
import torch

from scob.errors import UserError
from scob.training.checkpoint import Progress, latest_checkpoint, list_checkpoints, read_checkpoint, save_checkpoint


def tensors(seed: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {
        "weights": torch.randn(4, 3, generator=draw), "flag": torch.tensor(True), "empty": torch.zeros(0, 5),
        "turned": torch.randn(2, 6, generator=draw).T, "count": torch.tensor(seed),
    }  # fmt: skip


def test_what_is_saved_comes_back_and_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, tensors(step), Progress(step=step))
    assert [p.name for p in list_checkpoints(tmp_path)] == ["step-000000002.safetensors", "step-000000010.safetensors"]
    newest = latest_checkpoint(tmp_path)
    assert newest is not None
    assert newest.progress == Progress(step=10)
    assert newest.tensors.keys() == tensors(10).keys()
    assert all(torch.equal(newest.tensors[k], v) for k, v in tensors(10).items())
    assert newest.complaints == ()


@pytest.mark.parametrize("damage", ["cut", "bit", "empty"])
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path, damage: str) -> None:
    save_checkpoint(tmp_path, tensors(1), Progress(step=1))
    path = save_checkpoint(tmp_path, tensors(2), Progress(step=2))
    raw = bytearray(path.read_bytes())
    if damage == "bit":
        raw[-3] ^= 1
    path.write_bytes(b"" if damage == "empty" else bytes(raw[: len(raw) // 2]) if damage == "cut" else bytes(raw))
    newest = latest_checkpoint(tmp_path)
    assert newest is not None
    assert newest.progress == Progress(step=1)
    assert len(newest.complaints) == 1
    assert path.name in newest.complaints[0]
    with pytest.raises(UserError, match="damaged"):
        read_checkpoint(path)


def test_no_checkpoint_is_none_and_only_damaged_ones_are_an_error(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    (tmp_path / "step-000000001.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="start the run again"):
        latest_checkpoint(tmp_path)
