"""The run folder: its files, its lock and its log."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from scob import methods
from scob.config import Config, read_yaml
from scob.errors import UserError
from scob.methods.pairs import PairsSettings
from scob.training.checkpoint import Progress
from scob.training.run_folder import RunFolder
from scob.training.train import train


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
    settings = run.config_file.read_text().partition("\n")[2]  # without the seal, which came later
    run.config_file.write_text(settings.replace("  estimator: rows\n", ""))
    assert " estimator: " not in run.config_file.read_text()
    assert run.read_config() == config


def test_a_run_keeps_all_settings_of_its_method(tmp_path: Path, configure: Any) -> None:
    """Also those that have their defaults, which may change."""
    train(configure("method=pairs", "pairs.trust=0.3", "train.epochs=1"), tmp_path / "run")
    stored = read_yaml(tmp_path / "run" / "config.yaml")["pairs"]
    assert stored == PairsSettings(trust=0.3).model_dump()


def test_a_run_from_before_a_setting_of_its_method_is_read_as_it_was(tmp_path: Path, configure: Any) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_config(configure("method=pairs", "pairs.trust=0.3"))
    section = run.read_config().method_section("pairs")
    assert section["channels"] == 0 and section["trust"] == 0.3 and section["shift"] is True
    assert section["rate"] == 1.0 and section["contrast"] is True


@pytest.mark.parametrize("offered", [True, False], ids=["not loadable", "not known"])
def test_a_run_whose_method_cannot_be_had_is_read_as_it_was_written(
    tmp_path: Path, configure: Any, monkeypatch: pytest.MonkeyPatch, offered: bool
) -> None:
    """Its model can be used without the package of its method, or with one that does not work here."""
    broken = {"confident": EntryPoint("confident", "no_such_package.module", "scob.methods")}
    monkeypatch.setattr(methods, "plugins", lambda kind: broken if offered and kind == "methods" else {})
    run = RunFolder(tmp_path / "run")
    tree = configure().model_dump() | {"method": "confident", "confident": {"limit": 0.4}}
    run.write_config(Config.model_validate(tree))
    assert run.read_config().method_section("confident") == {"limit": 0.4}
    with pytest.raises(UserError, match="confident"):
        methods.written_out(run.read_config())


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
    assert run.sync_log()[0] == 0 and run.records() == []
    assert run.cut_log(Progress()) == ""
    run.log({"kind": "step", "step": 1})
    size, code = run.sync_log()
    run.log({"kind": "epoch", "epoch": 0})
    assert [record["kind"] for record in run.records()] == ["step", "epoch"]
    assert run.records("epoch") == [{"kind": "epoch", "epoch": 0}]
    assert run.cut_log(Progress(step=1, log=size, log_digest=code)) == ""
    assert run.records() == [{"kind": "step", "step": 1}] and run.sync_log() == (size, code)


@pytest.mark.parametrize("damage", ["torn", "deleted", "changed", "nonsense"])
def test_of_a_damaged_log_the_readable_lines_are_kept_and_the_rest_is_said(tmp_path: Path, damage: str) -> None:
    run = RunFolder(tmp_path)
    for step in (1, 2, 3):
        run.log({"kind": "step", "step": step})
    size, code = run.sync_log()
    run.log({"kind": "step", "step": 4})  # after the checkpoint
    raw = run.log_file.read_bytes()
    damaged = {"torn": raw[: size - 4], "changed": raw.replace(b"2}", b"3}"), "nonsense": b"\xff{[1]\n" + raw}
    run.log_file.write_bytes(damaged.get(damage, b""))
    if damage == "deleted":
        run.log_file.unlink()
    lost = run.cut_log(Progress(step=3, log=size, log_digest=code))
    kept = {"torn": [1, 2], "deleted": [], "changed": [1, 3, 3], "nonsense": [1, 2, 3]}[damage]
    assert [record["step"] for record in run.records("step")] == kept
    assert f"the {len(kept)} lines that can be read are kept" in lost
    assert run.cut_log(Progress(step=3, log=run.sync_log()[0])) == ""


def test_settings_that_were_cut_emptied_or_edited_are_refused(run_small: Any, tmp_path: Path) -> None:
    whole = RunFolder(run_small()).config_file.read_text()
    run = RunFolder(tmp_path)
    run.config_file.write_text(whole)
    assert run.read_config() == RunFolder(run_small()).read_config()
    assert "epochs: 4" in whole
    cuts = [whole[:size] for size in range(0, len(whole) - 1, 37)]
    for damaged in (*cuts, whole.replace("epochs: 4", "epochs: 6")):
        run.config_file.write_text(damaged)
        with pytest.raises(UserError, match=r"config\.yaml (is not|must contain)"):
            run.read_config()


def test_settings_of_an_earlier_version_have_no_seal(run_small: Any, tmp_path: Path) -> None:
    sealed = RunFolder(run_small()).config_file.read_text()
    run = RunFolder(tmp_path)
    run.config_file.write_text(sealed.partition("\n")[2])
    assert run.read_config() == RunFolder(run_small()).read_config()
    run.config_file.write_text(sealed.partition("\n")[2].partition("\ntrain:")[0])
    with pytest.raises(UserError, match=r"is not complete: it does not say '(labels|train)'"):
        run.read_config()


@pytest.mark.parametrize("damage", ["torn", "changed", "empty"])
def test_a_damaged_summary_is_refused_and_says_how_to_write_it_again(
    run_small: Any, tmp_path: Path, damage: str
) -> None:
    text = RunFolder(run_small()).summary_file.read_text()
    run = RunFolder(tmp_path)
    changed = text.replace('"epochs": 4', '"epochs": 5')
    run.summary_file.write_text({"torn": text[:-40], "changed": changed}.get(damage, ""))
    with pytest.raises(UserError, match=r"summary\.json is damaged .*--resume .* writes it again"):
        run.summary()


def test_only_a_finished_run_has_a_summary(run_small: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not finished: continue it with scob train --resume"):
        RunFolder(tmp_path).summary()
    run = RunFolder(run_small())
    assert run.finished and run.summary()["method"] == "scob" and len(run.labels()) == 40


def test_a_run_folder_that_cannot_be_written_is_refused_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match=r"cannot write the run folder .* is not a folder; give another --out"):
            RunFolder(path).check_free()
    RunFolder(tmp_path / "new" / "run").check_free()
    assert not (tmp_path / "new").exists()
