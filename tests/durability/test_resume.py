"""Interrupted and damaged runs: they resume from the newest complete checkpoint and end in the same bits."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.training import checkpoint
from scob.training.continuation import config_from_model
from scob.training.events import CheckpointDamaged, Event
from scob.training.loop import Training
from scob.training.resume import resume_config
from scob.training.run_folder import RunFolder
from scob.training.train import SharedParts, train
from support.interrupted import SAVING, Broken, broken_at
from support.struck import bytes_lost


@pytest.mark.parametrize("damage", ["a bit flipped", "cut short", "emptied", "overwritten"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    begun: Any, run_small: Any, faults: Any, damage: str
) -> None:
    config, data, run = begun
    newest = checkpoint.list_checkpoints(run / "checkpoints")[-1]
    raw = bytearray(newest.read_bytes())
    complaints: list[object] = []
    with faults.inject("newest checkpoint damaged", told=True) as fault:
        if damage == "a bit flipped":
            raw[len(raw) // 2] ^= 16
        newest.write_bytes({"cut short": raw[:-100], "emptied": b"", "overwritten": b"\0" * len(raw)}.get(damage, raw))

        def listen(event: Event) -> None:
            if isinstance(event, CheckpointDamaged):
                complaints.append(event.message)

        train(config, run, resume=True, shared=SharedParts(data), listen=listen)
        assert len(complaints) == 1
        assert newest.name in str(complaints[0])
        fault.lost = bytes_lost(run_small(SAVING), run)
        assert fault.lost == 0


def test_a_finished_run_can_be_extended_and_killed_on_the_way(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path
) -> None:
    config = configure(SAVING)
    whole, struck = tmp_path / "whole", tmp_path / "struck"
    for run in (whole, struck):
        shutil.copytree(run_small(SAVING), run)
    longer = resume_config(whole, [], "epochs=6")
    data = scenes_of(config)
    assert train(longer, whole, resume=True, shared=SharedParts(data)).summary["epochs"] == 6
    with pytest.raises(Broken):
        train(longer, struck, resume=True, shared=SharedParts(data), listen=broken_at(26))
    assert not (struck / "summary.json").exists()
    train(resume_config(struck), struck, resume=True, shared=SharedParts(data))
    assert bytes_lost(whole, struck) == 0
    again = train(longer, whole, resume=True, shared=SharedParts(data))
    assert again.summary == RunFolder(whole).summary()


def test_weights_of_a_best_epoch_that_did_not_last_do_not_come_back(
    configure: Any, scenes_of: Any, tmp_path: Path
) -> None:
    """The run breaks after an epoch was written as the best, before a checkpoint says so."""
    words = ("train.holdout=0.25", "train.checkpoint_steps=4", "train.epochs=3")
    config = configure(*words)
    data, whole, run = scenes_of(config), tmp_path / "whole", tmp_path / "run"
    train(config, whole, shared=SharedParts(data))

    class Falls(Training):
        def _remove_bests(self) -> None:
            super()._remove_bests()
            if self.progress.epoch == 1 and self.progress.best_epoch == 1:
                raise Broken

    try:
        train(config, run, shared=SharedParts(data), loop=Falls)
    except Broken:
        (run / "best-000001.safetensors").write_bytes(b"not what the checkpoint knows")
        train(config, run, resume=True, shared=SharedParts(data))
    assert bytes_lost(whole, run) == 0


def test_a_run_that_continues_from_a_model_is_resumed_as_it_began(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path
) -> None:
    """The run breaks before its first checkpoint is due: resuming must not start from new weights."""
    before, whole, run = run_small(), tmp_path / "whole", tmp_path / "run"
    config = config_from_model(configure("train.seed=7"), before, tmp_path, ["train.epochs=1"])
    data = scenes_of(config)

    train(config, whole, shared=SharedParts(data), init=before)
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), init=before, listen=broken_at(2))
    train(resume_config(run), run, resume=True, shared=SharedParts(data))
    assert bytes_lost(whole, run) == 0


def test_unfinished_files_of_a_killed_process_are_removed(begun: Any) -> None:
    config, data, run = begun
    left = run / "checkpoints" / ".step-000000012.safetensors.4711.part"
    left.write_bytes(b"half")
    train(config, run, resume=True, shared=SharedParts(data))
    assert not left.exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("step", ["train.compile=false", "train.compile=true"])
def test_a_deterministic_run_continues_with_the_same_bits_on_a_gpu(
    configure: Any, scenes_of: Any, tmp_path: Path, step: str
) -> None:
    config = configure(SAVING, "train.device=cuda", "train.deterministic=true", step)
    data, whole, run = scenes_of(config), tmp_path / "whole", tmp_path / "run"
    train(config, whole, shared=SharedParts(data))
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), listen=broken_at(11))
    train(config, run, resume=True, shared=SharedParts(data))
    assert bytes_lost(whole, run) == 0


def test_a_run_of_the_authors_choices_resumes_in_mid_epoch_with_the_same_bits(
    configure: Any, scenes_of: Any, tmp_path: Path
) -> None:
    """The dense estimator's steps, and a tree that is emptied when an epoch begins but not when it is resumed."""
    config = configure("train.checkpoint_steps=2", "scob.tree_lifetime=epoch", "train.estimator=dense")
    data, whole, run = scenes_of(config), tmp_path / "whole", tmp_path / "run"
    train(config, whole, shared=SharedParts(data))
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), listen=broken_at(13))
    train(config, run, resume=True, shared=SharedParts(data))
    assert bytes_lost(whole, run) == 0
