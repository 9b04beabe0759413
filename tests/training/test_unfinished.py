"""A stopped run: its best epoch so far is used, and the run can be ended there."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.errors import UserError
from scob.inference.model import Scob
from scob.inference.thresholds import thresholds
from scob.recovery.suggest import SuggestionLimits, recover
from scob.training.checkpoint import latest_checkpoint
from scob.training.events import EpochMeasured, Event
from scob.training.find_model import find_model
from scob.training.finished_run import FinishedRun
from scob.training.model_folder import load_network
from scob.training.resume import resume_config
from scob.training.stopping import Interrupted
from scob.training.train import SharedParts, train
from scob.training.unfinished import ending_after, epochs_asked
from support.interrupted import stop_at


@pytest.fixture(scope="module")
def stopped_once(configure: Any, scenes_of: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four epochs of five steps, stopped in the middle of its third."""
    config, run = configure("train.holdout=0.25", "data.evaluate=val"), tmp_path_factory.mktemp("stopped") / "run"
    data = scenes_of(config)
    with pytest.raises(Interrupted):
        train(config, run, shared=SharedParts(data), listen=stop_at(2 * -(-len(data.train) // 8) + 1))
    return run


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped_once, tmp_path / "run"))


def test_the_best_epoch_so_far_predicts_and_says_so(stopped: Path) -> None:
    found = find_model(stopped)
    assert found.run == stopped and found.path == stopped / "so-far"
    assert "is not finished: this is the model of epoch" in found.remark and "the best of 2 so far" in found.remark
    assert "(4 were planned)" in found.remark and "--finish" in found.remark
    network, _ = load_network(found.path)
    checkpoint = latest_checkpoint(stopped / "checkpoints")
    assert checkpoint is not None and checkpoint.progress.best_epoch is not None
    finished = train(resume_config(stopped), stopped, resume=True, loop=ending_after(2))
    same, _ = load_network(finished.model)  # the model that the run has if it ends there
    for name, tensor in same.state_dict().items():
        assert torch.equal(network.state_dict()[name], tensor), name


def test_a_model_that_finish_would_change_says_so(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("method=pairs")
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), listen=stop_at(7))
    assert "it may name too many labels" in find_model(tmp_path / "run").remark


def test_thresholds_are_stored_with_it_and_labels_suggested(stopped: Path) -> None:
    thresholds(stopped, "cpu", figures=False)
    assert set(Scob.from_pretrained(stopped, "cpu").card.thresholds) != {0.5}  # not written anew
    assert recover(stopped, selection=SuggestionLimits(0.0, 3), masks=False).suggestions
    assert not (stopped / "model").exists()


def test_a_run_ends_where_it_is_or_after_fewer_epochs_than_planned(stopped: Path) -> None:
    assert epochs_asked(stopped, None) == 2 and epochs_asked(stopped, 1) == 2
    assert epochs_asked(stopped, 3) == 3 and epochs_asked(stopped, 4) is None and epochs_asked(stopped, 9) is None
    finished = train(resume_config(stopped), stopped, resume=True, loop=ending_after(2))
    assert finished.summary["epochs"] == 2 and len(finished.curve) == 2
    assert FinishedRun.open(stopped).model == stopped / "model" and find_model(stopped).remark == ""
    assert finished.summary["evaluation"]["mAP"] == pytest.approx(
        finished.curve[finished.summary["selected_epoch"]]["mAP"], abs=1e-3
    )
    heard: list[Event] = []
    more = train(resume_config(stopped), stopped, resume=True, loop=ending_after(3), listen=heard.append)
    assert {event.epochs for event in heard if isinstance(event, EpochMeasured)} == {3}  # shown as what it will be
    assert more.summary["epochs"] == 3 and [point["epoch"] for point in more.curve] == [0, 1, 2]
    whole = train(resume_config(stopped), stopped, resume=True)
    assert whole.summary["epochs"] == 4 and len(whole.curve) == 4


def test_a_run_stopped_in_its_first_epoch_has_no_model_yet(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure()
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), listen=stop_at(2))
    for use in (find_model, FinishedRun.open, lambda path: epochs_asked(path, None)):
        with pytest.raises(UserError, match=r"before the end of its first epoch, so it has no model yet: continue it"):
            use(tmp_path / "run")
