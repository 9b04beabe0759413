"""A run's events as they are drawn on stderr."""

import time

import pytest

from scob.cli.live import Left, Live, bars
from scob.training import events


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (events.StopRequested(), "finishing this step, then saving; Ctrl+C again stops now"),
        (events.ReadTrueMasks(3, 10), "3 of 10 images have a segmentation"),
        (events.CheckpointDamaged("step-2 is damaged"), "using an older checkpoint: step-2 is damaged"),
        (events.Note("a [bold] word"), "a [bold] word"),
        (events.ContinuedFrom(("cat",), ("dog",), ()), "continuing from the model: 1 classes kept; new: dog"),
        (events.EpochMeasured(0, 4, {"mAP": 61.234, "mAP-observed": None}, 2.0), "epoch 1/4  mAP 61.23  2.0 s"),
    ],
)
def test_each_event_is_one_line(capsys: pytest.CaptureFixture[str], event: events.Event, shown: str) -> None:
    with Live("Scob") as live:
        live(event)
    line = " ".join(capsys.readouterr().err.split())
    assert line.startswith(f"Scob: {' '.join(shown.split())}")  # a colon, so that the name is not read as a subject


def test_the_time_left_stays_on_one_line_and_ends_with_the_work() -> None:
    with Live("Scob") as live:
        number = live.bar.add_task("x", total=2, count="", facts="", end=time.monotonic() + 60)
        task = live.bar.tasks[-1]
        shown = Left().render(task)
        assert shown.plain.endswith(" left") and shown.no_wrap
        live.bar.update(number, completed=2)
        assert Left().render(task).plain == ""


def test_the_bar_moves_with_every_step_and_says_how_long_it_will_take() -> None:
    with Live("Scob") as live:
        live(events.StepTaken(1, 40))  # before the start: nothing to draw on
        live(events.Started(10, 40))
        live(events.StepTaken(11, 40))
        [task] = live.bar.tasks
        assert (task.completed, task.total, task.fields["count"]) == (11, 40, "11/40 steps")
        assert task.fields["end"] is not None
        live(events.StepLogged(20, 40, {"class": 0.5, "contrast": 0.25}, 99.6))
        assert task.fields["facts"] == "100 images/s  class 0.500 contrast 0.250"


def test_every_other_part_has_a_bar_with_its_name() -> None:
    with Live("Scob") as live:
        assert [task.description for task in live.bar.tasks] == ["starting"]
        live(events.Working("reading images", 30, 120))
        [task] = live.bar.tasks
        assert (task.description, task.completed, task.total) == ("reading images", 30, 120)
        assert task.fields["count"] == "30/120 images"
        live(events.Started(0, 8))
        live(events.Working("evaluating", 8, 16))
        assert [task.description for task in live.bar.tasks] == ["Scob", "evaluating"]
        live(events.EpochMeasured(0, 4, {}, 2.0))
        assert [task.description for task in live.bar.tasks] == ["Scob"]


def test_two_runs_share_a_display_and_each_takes_its_own_bars_away() -> None:
    with bars() as display:
        first, second = Live("Scob", display), Live("ROLE", display)
        assert [task.description for task in display.tasks] == ["Scob: starting", "ROLE: starting"]
        for live in (first, second):
            live(events.Started(0, 8))
        first(events.Working("evaluating", 4, 16))
        second(events.StepTaken(3, 8))
        first(events.Working("evaluating", 8, 16))
        assert [task.description for task in display.tasks] == ["Scob", "ROLE", "Scob: evaluating"]
        assert [task.completed for task in display.tasks] == [0, 3, 8]
        first(events.RunEnds())
        assert [task.description for task in display.tasks] == ["ROLE"]
