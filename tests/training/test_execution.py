"""How steps are executed: what is chosen and said, what a run records, what a resumed run makes of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.errors import UserError
from scob.parallel import Processes
from scob.training import execution
from scob.training.build import build
from scob.training.events import Note
from scob.training.execution import FILE, Execution, agree_on, read_execution, why_plain
from scob.training.memory_plan import FreeMemory
from scob.training.resume import resume_config
from scob.training.run_folder import SEAL
from scob.training.train import SharedParts, train
from support.interrupted import SAVING, Broken, broken_at
from support.runs import same, trained_weights

AUTO = ("train.feature_cache=auto", "train.compile=auto")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`free(host)`: the machine has that many free bytes."""

    def set_free(host: int, device: int | None = None) -> None:
        monkeypatch.setattr(execution, "free_memory", lambda *_: FreeMemory(device, host))

    return set_free


def test_a_run_says_once_what_was_chosen_and_records_it(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config, events = configure(*AUTO), []
    train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), listen=events.append)
    said = [e.message for e in events if isinstance(e, Note) and "features" in e.message]
    assert len(said) == 1
    assert said[0].startswith("features are cached in memory (0 MB of")  # not a word about graphs on a CPU
    record = read_execution(tmp_path / "run")
    assert record is not None and (record.graph, record.padded, record.features) == (False, False, "host")


def test_the_chosen_path_gives_the_weights_of_the_plain_one(run_small: Any) -> None:
    plain, chosen = trained_weights(run_small()), trained_weights(run_small(*AUTO))
    assert all(torch.allclose(value, chosen[name], atol=1e-4) for name, value in plain.items())
    asked = trained_weights(run_small("train.feature_cache=device"))
    assert same(chosen, asked)  # cached features have the same bits wherever they are


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("model.freeze=none",), "the backbone is trained"),
        (("train.epochs=2",), "2 epochs gain too little"),
        (("train.epochs=1",), "1 epoch gains too little"),
        ((), "they would need 0 MB, and 0 MB are free"),
    ],
)
def test_why_features_are_not_cached(
    configure: Any, scenes_of: Any, free: Any, words: tuple[str, ...], why: str
) -> None:
    if not words:
        free(1000)
    config, events = configure(*AUTO, *words), []
    e = build(config, scenes_of(config), Processes(), listen=events.append)
    assert e.source.cache is None and e.execution.features == "none"
    assert f"features are not cached ({why})" in " ".join(n.message for n in events if isinstance(n, Note))


@pytest.mark.parametrize("place", ["device", "host"])
def test_a_place_that_was_asked_for_must_have_room(configure: Any, scenes_of: Any, free: Any, place: str) -> None:
    free(1000)
    config, events = configure(f"train.feature_cache={place}"), []
    with pytest.raises(UserError, match=rf"feature_cache={place} needs 0 MB, but only 0 MB are free in memory"):
        build(config, scenes_of(config), Processes(), listen=events.append)
    assert events == []  # before any work is done


def test_why_a_step_is_plain(configure: Any) -> None:
    gpu = Processes()
    gpu.device = torch.device("cuda")
    assert why_plain(configure("train.compile=auto"), gpu) == ""
    assert why_plain(configure("train.compile=false"), gpu) == "train.compile=false"
    assert "method sarb" in why_plain(configure("method=sarb", "train.compile=true"), gpu)
    assert "method scob" in why_plain(configure("scob.contrast=moco", "train.compile=true"), gpu)
    assert why_plain(configure("train.rows=host", "train.compile=auto"), gpu) == "train.rows=host"
    assert "CUDA" in why_plain(configure("train.compile=auto"), Processes())
    gpu.count = 2
    assert "several processes" in why_plain(configure("train.compile=auto"), gpu)


def test_processes_take_the_most_modest_choice() -> None:
    processes = Processes()
    assert agree_on(1, processes) == 1
    processes.count = 3
    processes.concatenate = lambda rows: torch.cat((rows, torch.tensor([0, 3])))  # type: ignore[method-assign]
    assert agree_on(1, processes) == 3


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_is_explained(tmp_path: Path) -> None:
    record = Execution(True, True, "device", ("because",))
    record.save(tmp_path)
    assert read_execution(tmp_path) == record
    assert read_execution(tmp_path / "elsewhere") is None and read_execution(None) is None
    written = (tmp_path / FILE).read_text()
    for damaged in ("{", written.replace("device", "devicd"), written.replace("true", "false", 1)):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(UserError, match=r"execution\.json.*delete it"):
            read_execution(tmp_path)


def test_steps_down_are_taken_only_where_the_settings_leave_the_choice(configure: Any) -> None:
    record = Execution(True, True, "device")
    taken = []
    while record is not None:
        taken.append((record.graph, record.features))
        assert record.padded  # batches stay as they are
        record = record.lower(configure(*AUTO))  # type: ignore[assignment]
    assert taken == [(True, "device"), (False, "device"), (False, "host"), (False, "none")]
    assert Execution(True, True, "device").lower(configure("train.compile=true", "train.feature_cache=device")) is None


def test_a_resumed_run_does_what_it_did_before(configure: Any, scenes_of: Any, free: Any, tmp_path: Path) -> None:
    """It began without room for its features: with more room it still computes them, to the same bits."""
    config, whole, run = configure(*AUTO, SAVING), tmp_path / "whole", tmp_path / "run"
    data, events = scenes_of(config), []
    free(1000)
    train(config, whole, shared=SharedParts(data))
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), listen=broken_at(11))
    free(10**12)
    train(config, run, resume=True, shared=SharedParts(data), listen=events.append)
    assert same(trained_weights(whole), trained_weights(run))
    assert any("not cached (as when the run began)" in e.message for e in events if isinstance(e, Note))


def test_a_resumed_run_that_has_less_room_goes_on_and_says_so(
    configure: Any, scenes_of: Any, free: Any, tmp_path: Path
) -> None:
    config, events = configure(*AUTO, SAVING), []
    data = scenes_of(config)
    with pytest.raises(Broken):
        train(config, tmp_path, shared=SharedParts(data), listen=broken_at(11))
    free(1000)
    train(config, tmp_path, resume=True, shared=SharedParts(data), listen=events.append)
    assert any("not cached (they would need" in e.message for e in events if isinstance(e, Note))


def test_a_run_from_before_keeps_its_settings(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    """Its config.yaml, which has no seal, says none and false, or says nothing; it has no record."""
    old = configure(SAVING)
    data = scenes_of(old)
    with pytest.raises(Broken):
        train(old, tmp_path, shared=SharedParts(data), listen=broken_at(11))
    (tmp_path / FILE).unlink()
    file = tmp_path / "config.yaml"
    new = (SEAL, "  compile:", "  feature_cache:")
    lines = [line for line in file.read_text().splitlines() if not line.startswith(new)]
    assert len(lines) == len(file.read_text().splitlines()) - 3
    file.write_text("\n".join(lines))
    assert (resume_config(tmp_path).train.compile, resume_config(tmp_path).train.feature_cache) == (False, "none")
    finished = train(configure(*AUTO, SAVING), tmp_path, resume=True, shared=SharedParts(data))
    assert finished.experiment is not None and finished.experiment.source.cache is None
    with pytest.raises(UserError, match=r"feature_cache: none -> host.*resume it without"):
        resume_config(tmp_path, ["train.feature_cache=host"])


def test_a_padded_run_stays_padded(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    """38 images in batches of 8: what a captured step needs, a plain one continues with."""
    config = configure(*AUTO, "train.holdout=0.05")
    replace(Execution(), graph=True, padded=True, features="none").save(tmp_path)
    e = build(config, scenes_of(config), Processes(), folder=tmp_path)
    assert not e.execution.graph and e.execution.padded
    assert {len(planned.rows) for planned in e.plan.epoch(0)} == {8}
