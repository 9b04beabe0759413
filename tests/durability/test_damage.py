"""Everything a resume reads is checked: damage is passed over or refused with a sentence, never trained on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from scob.errors import UserError
from scob.training.checkpoint import UNSEALED, latest_checkpoint, list_checkpoints, read_checkpoint
from scob.training.events import CheckpointDamaged, Event, Note
from scob.training.resume import resume_config
from scob.training.train import SharedParts, train
from support.interrupted import SAVING, Broken, broken_at
from support.runs import same, trained_weights
from support.struck import bytes_lost, records

CHOOSING = (SAVING, "train.holdout=0.25")


class Heard:
    """A listener that keeps the sentences a person would read."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Note | CheckpointDamaged):
            self.sentences.append(event.message)

    def heard(self, words: str) -> bool:
        return any(words in sentence for sentence in self.sentences)


def test_a_changed_progress_is_passed_over(begun: Any, run_small: Any, faults: Any) -> None:
    config, data, run = begun
    newest = list_checkpoints(run / "checkpoints")[-1]
    raw = newest.read_bytes()
    assert raw.count(b'\\"count\\": 0') == 1
    heard = Heard()
    with faults.inject("a bit of the progress flipped", told=True) as fault:
        newest.write_bytes(raw.replace(b'\\"count\\": 0', b'\\"count\\": 1'))
        train(config, run, resume=True, shared=SharedParts(data), listen=heard)
        assert heard.heard("its progress or settings do not match its digest")
        fault.lost = bytes_lost(run_small(SAVING), run)
        assert fault.lost == 0


@pytest.fixture
def chosen(configure: Any, scenes_of: Any, tmp_path: Path) -> tuple[Any, Any, Path, Path]:
    """A run that broke at step 18 of 20 and knows a best epoch; and the file with that epoch's weights."""
    config = configure(*CHOOSING)
    data, run = scenes_of(config), tmp_path / "run"
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), listen=broken_at(15))
    newest = latest_checkpoint(run / "checkpoints")
    assert newest is not None and newest.progress.best_epoch is not None
    return config, data, run, run / f"best-{newest.progress.best_epoch:06d}.safetensors"


@pytest.mark.parametrize("damage", ["a bit flipped", "cut short", "missing"])
def test_a_run_ends_with_what_is_whole_if_the_best_weights_are_not(chosen: Any, faults: Any, damage: str) -> None:
    config, data, run, best = chosen
    raw = bytearray(best.read_bytes())
    raw[-10] ^= 64
    best.write_bytes(bytes(raw) if damage == "a bit flipped" else bytes(raw[:-50]))
    if damage == "missing":
        best.unlink()
    heard = Heard()
    with faults.inject("best weights damaged", told=True):
        finished = train(config, run, resume=True, shared=SharedParts(data), listen=heard)
        assert heard.heard("the best so far, are lost")
        assert finished.summary["selected_epoch"] > int(best.stem.removeprefix("best-"))
        assert all(value.isfinite().all() for value in trained_weights(run).values())


def test_settings_that_were_edited_are_refused_and_the_checkpoint_knows_them_too(begun: Any, faults: Any) -> None:
    _, data, run = begun
    file = run / "config.yaml"
    edited = file.read_text().replace("lr_smt: 0.001", "lr_smt: 0.002")
    assert edited != file.read_text()
    with faults.inject("settings edited", told=True):
        file.write_text(edited)
        with pytest.raises(UserError, match=r"config\.yaml is not as Scob wrote it"):
            resume_config(run)
    with faults.inject("settings edited", told=True):
        file.write_text(edited.partition("\n")[2])  # without the seal
        with pytest.raises(UserError, match=r"different settings \(train\.lr_smt: 0\.001 -> 0\.002\)"):
            train(resume_config(run), run, resume=True, shared=SharedParts(data))


def test_what_only_looks_like_a_checkpoint_is_not_chosen_and_not_in_the_way(
    begun: Any, run_small: Any, faults: Any
) -> None:
    config, data, run = begun
    folder = run / "checkpoints"
    other = list_checkpoints(run_small(SAVING, "train.seed=5") / "checkpoints")[-1]
    with faults.inject("strangers among the checkpoints") as fault:
        shutil.copy(other, folder / "step-000000500.safetensors")
        shutil.copy(other, folder / other.name)
        (folder / "step-000000700.safetensors").write_bytes(b"")
        (folder / "step-000000012.safetensors").mkdir()
        (folder / "step-x.safetensors").write_bytes(b"")
        heard = Heard()
        train(config, run, resume=True, shared=SharedParts(data), listen=heard)
        assert heard.heard("different settings (train.seed: 5 -> 0)")
        own = [path for path in list_checkpoints(folder) if path.name < "step-000000500"]
        assert [read_checkpoint(path).progress.step for path in own] == [16, 20]
        for stranger in (500, 700):
            (folder / f"step-{stranger:09d}.safetensors").unlink()
        fault.lost = bytes_lost(run_small(SAVING), run)
        assert fault.lost == 0


def test_a_new_run_sets_the_checkpoints_of_an_earlier_one_aside(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, faults: Any
) -> None:
    run, config = tmp_path / "run", configure(SAVING)
    shutil.copytree(run_small(SAVING) / "checkpoints", run / "checkpoints")
    heard, data = Heard(), scenes_of(config)
    with faults.inject("checkpoints of an earlier run") as fault:
        with pytest.raises(Broken):
            train(config, run, shared=SharedParts(data), listen=broken_at(11))
        assert [int(path.stem[5:]) for path in list_checkpoints(run / "checkpoints")] == [4, 8]
        train(config, run, resume=True, shared=SharedParts(data), listen=heard)
        assert not heard.heard("metrics.jsonl")
        fault.lost = bytes_lost(run_small(SAVING), run)
        assert fault.lost == 0


def test_a_backbone_that_changed_is_refused(
    configure: Any, scenes_of: Any, tiny_backbone: Path, tmp_path: Path, faults: Any
) -> None:
    backbone = tmp_path / "backbone"
    shutil.copytree(tiny_backbone, backbone)
    config = configure(SAVING, f"model.backbone={backbone}")
    data, run = scenes_of(config), tmp_path / "run"
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), listen=broken_at(6))
    weights = load_file(backbone / "model.safetensors")
    name = next(name for name in weights if name.endswith("convolution.weight"))
    weights[name].view(-1)[0] += 1e-3
    save_file(weights, backbone / "model.safetensors", metadata={"format": "pt"})
    with (
        faults.inject("a frozen weight of the backbone changed", told=True),
        pytest.raises(UserError, match="is no longer the one this run began with"),
    ):
        train(config, run, resume=True, shared=SharedParts(data))


def test_a_run_of_an_earlier_version_is_resumed_and_says_what_it_cannot_check(begun: Any, run_small: Any) -> None:
    config, data, run = begun
    for path in list_checkpoints(run / "checkpoints"):  # as an earlier version wrote them
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        progress = {k: v for k, v in json.loads(metadata["progress"]).items() if not k.endswith("_digest")}
        old = {"format": UNSEALED, "digest": metadata["digest"], "progress": json.dumps(progress)}
        save_file(read_checkpoint(path).tensors, path, metadata=old)
    for path in run.glob("best-*.safetensors"):
        save_file(load_file(path), path)
    (run / "config.yaml").write_text((run / "config.yaml").read_text().partition("\n")[2])
    heard = Heard()
    train(resume_config(run), run, resume=True, shared=SharedParts(data), listen=heard)
    assert heard.heard("only its weights can be checked")
    assert bytes_lost(run_small(SAVING), run) == 0
    assert not heard.heard("lost")
    assert config.train.epochs == 4


@pytest.mark.parametrize("damage", ["torn", "deleted", "a bit flipped"])
def test_a_damaged_log_does_not_stop_a_run(begun: Any, run_small: Any, faults: Any, damage: str) -> None:
    config, data, run = begun
    log = run / "metrics.jsonl"
    raw = bytearray(log.read_bytes())
    raw[30] ^= 64
    log.write_bytes(bytes(raw) if damage == "a bit flipped" else bytes(raw[:100]))
    if damage == "deleted":
        log.unlink()
    heard = Heard()
    with faults.inject("log damaged", told=True):
        train(config, run, resume=True, shared=SharedParts(data), listen=heard)
        assert heard.heard("the training itself is not affected")
        assert same(trained_weights(run_small(SAVING)), trained_weights(run))
        assert [r["step"] for r in records(run) if r["kind"] == "step"][-12:] == list(range(9, 21))


@pytest.mark.parametrize("damaged", ["summary.json", "model/model.safetensors", "model/config.json"])
def test_damaged_results_of_a_finished_run_are_written_again(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, faults: Any, damaged: str
) -> None:
    whole, run, config = run_small(SAVING), tmp_path / "run", configure(SAVING)
    shutil.copytree(whole, run)
    (run / damaged).write_bytes((run / damaged).read_bytes()[:-20])
    heard = Heard()
    with faults.inject("results of a finished run cut short", told=True) as fault:
        train(config, run, resume=True, shared=SharedParts(scenes_of(config)), listen=heard)
        assert heard.heard("the results of this run are written again")
        fault.lost = bytes_lost(whole, run)
        assert fault.lost == 0
