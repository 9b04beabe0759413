"""What a run reports while it trains."""

from pathlib import Path
from typing import Any

import pytest

from scob.training.events import (
    CachingFeatures,
    Calibrating,
    EpochMeasured,
    Event,
    Note,
    Started,
    StepLogged,
    StepTaken,
    Working,
    silent,
)
from scob.training.train import SharedParts, train


def test_a_run_reports_what_it_does_in_order(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("train.epochs=1", "data.evaluate=val", "train.feature_cache=host", "train.log_every=2")
    events: list[Event] = []
    train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), listen=events.append)
    taken = [event for event in events if isinstance(event, StepTaken)]
    assert [(event.step, event.steps) for event in taken] == [(step, 5) for step in (1, 2, 3, 4, 5)]
    parts = [event for event in events if isinstance(event, Working)]
    names = ("re-estimating BatchNorm", "computing features (train)", "computing features (evaluate)", "evaluating")
    assert list(dict.fromkeys(event.what for event in parts)) == list(names)
    assert {event.what for event in parts if event.done == event.total} == set(names)
    events = [event for event in events if event not in taken and event not in parts]
    kinds = [Calibrating, CachingFeatures, CachingFeatures, Started, StepLogged, StepLogged, EpochMeasured]
    assert [type(event) for event in events] == kinds
    assert events[0] == Calibrating(40) and events[1] == CachingFeatures("train", 40) and events[3] == Started(0, 5)
    steps = [event for event in events if isinstance(event, StepLogged)]
    assert [(event.step, event.steps) for event in steps] == [(2, 5), (4, 5)]
    assert all(event.images_per_second > 0 and event.losses["class"] > 0 for event in steps)
    assert events[-1].measured.keys() == {"mAP"}


def test_a_run_that_is_not_listened_to_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    silent(Note("nobody reads this"))
    assert capfd.readouterr() == ("", "")
