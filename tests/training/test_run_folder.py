"""The run folder: its files, its lock and its log."""

from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.training.run_folder import RunFolder


def test_a_run_folder_contains_everything(run_small: Any) -> None:
    names = {p.name for p in run_small().iterdir()}
    assert names >= {"config.yaml", "labels.safetensors", "metrics.jsonl", "summary.json", "model", "tensorboard"}
    assert list((run_small() / "tensorboard").iterdir())


def test_a_folder_with_a_run_is_not_free(tmp_path: Path, configure: Any) -> None:
    run = RunFolder(tmp_path / "run")
    run.check_free()
    config = configure("scob.tau=0.3")
    run.write_config(config)
    assert run.read_config() == config
    with pytest.raises(UserError, match=r"already contains a run: continue it with --resume"):
        run.check_free()


def test_a_run_of_the_papers_preset_from_before_a_setting_is_read_as_it_was(tmp_path: Path, configure: Any) -> None:
    run = RunFolder(tmp_path / "run")
    config = configure("preset=paper", "train.estimator=rows", "train.holdout=0.1")
    run.write_config(config)
    run.config_file.write_text(run.config_file.read_text().replace("  estimator: rows\n", ""))
    assert " estimator: " not in run.config_file.read_text()
    assert run.read_config() == config


def test_a_folder_without_settings_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run folder: it has no config\.yaml"):
        RunFolder(tmp_path).read_config()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.locked():
        with pytest.raises(UserError, match="another process is writing to the run folder"), run.locked():
            pass
        run.log({"kind": "step"})
    with run.locked():
        pass
    assert run.path.is_dir()


def test_a_new_folder_to_which_nothing_was_written_is_removed(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    for folder in (new, old):
        with pytest.raises(ZeroDivisionError), RunFolder(folder).locked():
            raise ZeroDivisionError
    assert not new.exists() and old.is_dir()


def test_unfinished_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.model.mkdir()
    unfinished = run.model / ".model.safetensors.4711.part"
    unfinished.write_bytes(b"half")
    with run.locked():
        assert not unfinished.exists()


def test_the_log_is_cut_back_to_a_checkpoint(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.sync_log() == 0 and run.records() == []
    run.cut_log(0)
    run.log({"kind": "step", "step": 1})
    size = run.sync_log()
    run.log({"kind": "epoch", "epoch": 0})
    assert [record["kind"] for record in run.records()] == ["step", "epoch"]
    assert run.records("epoch") == [{"kind": "epoch", "epoch": 0}]
    run.cut_log(size)
    assert run.records() == [{"kind": "step", "step": 1}] and run.sync_log() == size
    with pytest.raises(UserError, match=rf"has {size} bytes, but had {size + 1} when the checkpoint was written"):
        run.cut_log(size + 1)


def test_only_a_finished_run_has_a_summary(run_small: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not finished: continue it with scob train --resume"):
        RunFolder(tmp_path).summary()
    run = RunFolder(run_small())
    assert run.finished and run.summary()["method"] == "scob" and len(run.labels()) == 40
