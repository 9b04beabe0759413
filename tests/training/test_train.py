"""A run from start to end: refused, interrupted, resumed, finished."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.algorithm.bootstrap import Bootstrap
from scob.algorithm.sampling import Batch
from scob.errors import UserError
from scob.training.build import Experiment
from scob.training.checkpoint import latest_checkpoint
from scob.training.events import Event, Listener, Note, Started, StepLogged
from scob.training.execution import Execution, read_execution
from scob.training.finished_run import FinishedRun
from scob.training.loop import Training
from scob.training.metrics import evaluate_scores
from scob.training.stopping import Interrupted
from scob.training.train import SharedParts, lower_execution, train
from support.runs import logged, same, trained_weights


@pytest.mark.parametrize(
    "words",
    [
        ("method=rolee",),
        ("data.source=nowhere",),
        ("method=pairs", "pairs.epochs=-1"),
        ("method=pairs", "scob.contrast=byol"),
    ],
)
def test_a_mistake_leaves_no_run_folder(configure: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UserError):
        train(configure(*words), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "existing").mkdir()  # a folder that was there before stays
    with pytest.raises(UserError):
        train(configure(*words), tmp_path / "existing")
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
    config = configure("train.epochs=16")  # long enough for a time in tenths of a second
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


def watched_scores(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets the name of each split that an experiment scores from now on."""
    real, scored = Experiment.scores, []

    def watch(self: Experiment, split: str, *rest: Any) -> Any:
        scored.append(split)
        return real(self, split, *rest)

    monkeypatch.setattr(Experiment, "scores", watch)
    return scored


def test_no_pass_over_the_training_images_unless_somebody_asks(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = watched_scores(monkeypatch)
    config = configure("data.evaluate=val", "train.epochs=1", "train.holdout=0.25", "data.source=scenes:64x64")
    run = train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
    assert set(scored) == {"holdout", "evaluate"}
    assert run.scores("train").shape == (48, 16) and scored[-1] == "train"


def measured_again(run: FinishedRun) -> Any:
    """The evaluation of a run's model, from scores that are computed now."""
    assert run.experiment is not None and run.experiment.data.evaluate is not None
    data = run.experiment.data
    return evaluate_scores(run.scores("evaluate"), data.evaluate.labels.values, data.observed.classes).to_json()


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (("train.select=last",), 2),
        (("train.select=last", "train.ema=0.9"), 2),
        (("train.select=last", "method=pairs"), 3),
    ],
)
def test_the_reported_images_are_not_scored_twice_with_the_same_weights(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], times: int
) -> None:
    """`pairs` changes the weights after the last epoch, so they are scored once more."""
    scored = watched_scores(monkeypatch)
    config = configure("data.evaluate=val", "train.epochs=2", *words)
    run = train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
    assert scored.count("evaluate") == times
    assert run.summary["evaluation"] == measured_again(run)


def test_an_earlier_epoch_that_becomes_the_model_is_scored_again(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Training.evaluate

    def falling(self: Training) -> dict[str, float | None]:
        return {**real(self), "mAP": -float(self.progress.epoch)}

    monkeypatch.setattr(Training, "evaluate", falling)
    config = configure("data.evaluate=val", "train.epochs=2", "train.select=best-on-test")
    run = train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
    assert run.summary["selected_epoch"] == 0
    assert run.summary["evaluation"] == measured_again(run)


def test_a_step_that_does_not_fit_lowers_the_run_one_step_and_it_goes_on(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the 8th step memory is short as long as features are cached: the run continues without, from step 6."""
    config, events = configure("train.feature_cache=auto", "train.compile=auto", "train.checkpoint_steps=2"), []
    step = Bootstrap.step

    def short(method: Bootstrap, batch: Batch, optimiser: Any) -> Any:
        if batch.step == 7 and method.source.cache is not None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(method, batch, optimiser)

    monkeypatch.setattr(Bootstrap, "step", short)
    finished = train(config, tmp_path, shared=SharedParts(scenes_of(config)), listen=events.append)
    assert [e.step for e in events if isinstance(e, Started)] == [0, 6]
    said = [e.message for e in events if isinstance(e, Note) and "did not fit" in e.message]
    assert said == [
        "a step did not fit into memory; the run goes on from its last checkpoint with features that are not cached"
    ]
    assert [r["step"] for r in finished.folder.records("step")] == list(range(1, 21))
    record = read_execution(tmp_path)
    assert record is not None and record.features == "none"


def test_a_step_that_never_fits_ends_with_a_batch_size(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure("train.feature_cache=auto", "train.compile=auto")

    def short(method: Bootstrap, batch: Batch, optimiser: Any) -> Any:
        if len(batch.rows) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Bootstrap, "step", short)
    with pytest.raises(UserError, match=r"train\.batch=4 fits \(tried here\)"):
        train(config, tmp_path, shared=SharedParts(scenes_of(config)))


def test_several_processes_do_not_go_on_by_themselves(
    configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would know that one of them has begun again."""
    config = configure("train.feature_cache=auto", "train.compile=auto")
    Execution(features="host").save(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert lower_execution(tmp_path, config, SharedParts()) is None
    monkeypatch.setenv("WORLD_SIZE", "1")
    lowered = lower_execution(tmp_path, config, SharedParts())
    assert lowered is not None and lowered.features == "none" and read_execution(tmp_path) == lowered
