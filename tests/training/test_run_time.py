"""How long a run will take, before it starts."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from scob.algorithm.bootstrap import Bootstrap
from scob.parallel import Processes
from scob.training import execution
from scob.training.events import Event, Working
from scob.training.memory_plan import FreeMemory
from scob.training.run_time import Costs, as_executed, estimate_seconds, sample, total_seconds
from scob.training.train import SharedParts, train
from support.recorded import waiting

Result = TypeVar("Result")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread does all the work, so the time it waits for a core is all that other work on the machine costs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def running_share(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result, and the share of the time taken in which this process did not wait for a core."""
    began, waited = time.monotonic(), waiting(os.getpid(), 0.0)
    result = work()
    return result, 1 - (waiting(os.getpid(), 0.0) - waited) / (time.monotonic() - began)


@pytest.mark.usefixtures("one_thread")
def test_the_estimate_and_the_time_taken_agree_within_a_third(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("data.source=scenes:160x64", "train.epochs=12", "data.evaluate=val", "scob.init_epochs=2")
    data = scenes_of(config)
    heard: list[Event] = []
    estimated, free = running_share(lambda: estimate_seconds(config, data, heard.append))
    run, free_in_run = running_share(lambda: train(config, tmp_path / "run", shared=SharedParts(data)))
    assert estimated is not None
    assert 2 / 3 < estimated * free / (run.summary["seconds"] * free_in_run) < 3 / 2
    assert {event.what for event in heard if isinstance(event, Working)} == {"timing a few steps"}


def test_every_part_of_a_run_is_counted(experiment_of: Any) -> None:
    words = ("train.holdout=0", "data.evaluate=val", "train.epochs=4", "scob.init_epochs=1", "train.flip_test=false")
    plain, cached = experiment_of(*words), experiment_of(*words, "train.feature_cache=host")
    phases = {plain.method.phase(epoch): 0.0 for epoch in range(4)}
    steps = 4 * plain.plan.steps
    each = Costs(0, 0, 0, dict.fromkeys(phases, 1.0))
    assert total_seconds(plain, plain.data, each) == pytest.approx(steps)
    scored = len(plain.data.evaluate) * 4  # after each of four epochs; the last one's scores are those of the model
    assert total_seconds(plain, plain.data, Costs(0, 0, 1, phases)) == pytest.approx(scored)
    images = len(plain.data.train)
    calibrated = Costs(0, 1, 0, phases)
    assert total_seconds(plain, plain.data, calibrated) == pytest.approx(images + scored)
    kept = 2 * (images + len(plain.data.evaluate))
    assert total_seconds(cached, plain.data, calibrated) == pytest.approx(images + kept)


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (("train.select=last",), ()),
        (("train.select=last", "train.evaluate_every=3"), ()),
        (("train.select=holdout",), ("evaluate",)),
        (("train.select=best-on-test",), ("evaluate",)),
        (("train.select=last", "method=pairs"), ("train", "evaluate")),
        (("train.select=last", "method=pairs", "pairs.linear=false"), ("train", "evaluate")),
        (("train.select=last", "model.linear=true"), ("train", "evaluate")),
    ],
)
def test_a_model_that_may_differ_from_the_last_epoch_is_scored_again(
    experiment_of: Any, words: tuple[str, ...], again: tuple[str, ...]
) -> None:
    e = experiment_of("train.holdout=0.25", "data.evaluate=val", "train.epochs=4", "train.flip_test=false", *words)
    phases = {e.method.phase(epoch): 0.0 for epoch in range(4)}
    in_all = 2 if "train.evaluate_every=3" in words else 4
    scored = in_all * (len(e.data.evaluate) + len(e.data.holdout)) + sum(len(e.data.splits[name]) for name in again)
    assert total_seconds(e, e.data, Costs(0, 0, 1, phases)) == pytest.approx(scored)


def test_a_sample_is_one_batch_from_all_parts_of_the_data(configure: Any, scenes_of: Any) -> None:
    data = scenes_of(configure("data.evaluate=val"))
    few = sample(data, 8)
    assert len(few.train) == len(few.observed) == 8 and few.evaluate is None
    assert few.train.labels.images[-1] == data.train.labels.images[-1]


def test_the_timed_steps_are_executed_as_the_whole_run_will_be(
    configure: Any, scenes_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features of all images do not fit into what is free, though those of the timed batch would."""
    config = configure("train.feature_cache=auto", "train.compile=auto")
    data, processes = scenes_of(config), Processes()
    assert as_executed(config, data, processes).train.feature_cache == "host"
    monkeypatch.setattr(execution, "free_memory", lambda *_: FreeMemory(None, 100_000))
    chosen = as_executed(config, data, processes).train
    assert (chosen.feature_cache, chosen.compile) == ("none", False)


def test_there_is_no_estimate_where_the_timed_steps_do_not_fit(
    configure: Any, scenes_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    config = configure()
    monkeypatch.setattr(Bootstrap, "step", short)
    assert estimate_seconds(config, scenes_of(config)) is None
