"""A run from start to end: refused, interrupted, resumed, finished."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.training.build import Experiment
from scob.training.checkpoint import latest_checkpoint
from scob.training.events import Event, Listener, Note, StepLogged
from scob.training.stopping import Interrupted
from scob.training.train import SharedParts, train
from support.runs import logged, same, trained_weights


@pytest.mark.parametrize("word", ["method=rolee", "data.source=nowhere"])
def test_a_mistake_leaves_no_run_folder(configure: Any, tmp_path: Path, word: str) -> None:
    with pytest.raises(UserError):
        train(configure(word), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "existing").mkdir()  # a folder that was there before stays
    with pytest.raises(UserError):
        train(configure(word), tmp_path / "existing")
    assert (tmp_path / "existing").is_dir()


def at_step(number: int, act: Callable[[], None]) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, StepLogged) and event.step == number:
            act()

    return listen


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def crash() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "words",
    [(), ("scob.contrast=moco", "train.ema=0.9"), ("scob.optimisation=two-stage", "train.feature_cache=device")],
)
def test_a_resumed_run_ends_in_the_same_bits(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    undisturbed = run_small(*words)
    config = configure(*words, "train.checkpoint_steps=3")
    data = scenes_of(config)
    with pytest.raises(ZeroDivisionError):  # between checkpoints, in the middle of the second epoch
        train(config, tmp_path / "run", shared=SharedParts(data), listen=at_step(8, crash))
    with pytest.raises(Interrupted) as caught:  # asked to stop, in the middle of the third
        train(config, tmp_path / "run", resume=True, shared=SharedParts(data), listen=at_step(13, terminate))
    assert caught.value.code == 128 + signal.SIGTERM
    finished = train(config, tmp_path / "run", resume=True, shared=SharedParts(data))
    assert same(trained_weights(undisturbed), trained_weights(tmp_path / "run"))
    assert logged(undisturbed, "class") == logged(tmp_path / "run", "class")
    again = train(config, tmp_path / "run", resume=True, shared=SharedParts(data))
    assert again.summary == json.loads(json.dumps(finished.summary))


def test_the_time_of_a_run_covers_all_the_times_it_was_started(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure()
    data, run = scenes_of(config), tmp_path / "run"
    with pytest.raises(Interrupted):
        train(config, run, shared=SharedParts(data), listen=at_step(13, terminate))
    checkpoint = latest_checkpoint(run / "checkpoints")
    assert checkpoint is not None and checkpoint.progress.seconds > 0
    began: list[float] = []
    finished = train(
        config, run, resume=True, shared=SharedParts(data), listen=lambda _: began.append(time.monotonic())
    )
    taken = time.monotonic() - began[0]
    assert finished.summary["seconds"] >= checkpoint.progress.seconds + 0.8 * taken


def test_a_run_without_an_evaluation_split_says_so_first_and_last(configure: Any, tmp_path: Path) -> None:
    heard: list[Event] = []
    run = train(configure("train.epochs=1", "train.select=best-on-test"), tmp_path / "none", listen=heard.append)
    assert isinstance(heard[0], Note) and "no evaluation split, so mAP is not reported" in heard[0].message
    assert "data.evaluate can be val" in heard[0].message and "the last epoch becomes the model" in heard[0].message
    assert run.summary["evaluate_split"] is None and "evaluation" not in run.summary
    reported = train(configure("train.epochs=1", "data.evaluate=val"), tmp_path / "val", listen=heard.append)
    assert reported.summary["evaluate_split"] == "val" and reported.curve[0]["mAP"] > 0
    assert sum(isinstance(event, Note) for event in heard) == 1


def test_a_folder_that_contains_a_run_is_refused(configure: Any, scenes_of: Any, run_small: Any) -> None:
    config, run = configure(), run_small()
    before = trained_weights(run)
    with pytest.raises(UserError, match="already contains a run"):
        train(config, run, shared=SharedParts(scenes_of(config)))
    assert same(before, trained_weights(run))


def test_no_pass_over_the_training_images_unless_somebody_asks(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, scored = Experiment.scores, []

    def watch(self: Experiment, split: str, *rest: Any) -> Any:
        scored.append(split)
        return real(self, split, *rest)

    monkeypatch.setattr(Experiment, "scores", watch)
    config = configure("data.evaluate=val", "train.epochs=1", "train.holdout=0.25", "data.source=scenes:64x64")
    run = train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
    assert set(scored) == {"holdout", "evaluate"}
    assert run.scores("train").shape == (48, 16) and scored[-1] == "train"
