"""A run's events as they are drawn on stderr."""

import pytest

from scob.cli.live import Live
from scob.training import events


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (events.Calibrating(1234), "re-estimating BatchNorm on 1,234 training images"),
        (events.CachingFeatures("holdout", 56), "clean features of 56 images (holdout)"),
        (events.ReadTrueMasks(3, 10), "3 of 10 images have a segmentation"),
        (events.CheckpointDamaged("step-2 is damaged"), "falling back to an older checkpoint: step-2 is damaged"),
        (events.Note("a [bold] word"), "a [bold] word"),
        (events.ContinuedFrom(("cat",), ("dog",), ()), "continuing from the model: 1 classes kept; new: dog"),
        (events.EpochMeasured(0, 4, {"mAP": 61.234, "mAP-observed": None}, 2.0), "epoch 1/4  mAP 61.23  2.0 s"),
    ],
)
def test_each_event_is_one_line(capsys: pytest.CaptureFixture[str], event: events.Event, shown: str) -> None:
    with Live("Scob") as live:
        live(event)
    line = " ".join(capsys.readouterr().err.split())
    assert "Scob" in line and " ".join(shown.split()) in line


def test_the_bar_follows_the_steps() -> None:
    with Live("Scob") as live:
        live(events.StepLogged(1, 40, {"class": 0.5}, 10.0))  # before the start: nothing to draw on
        live(events.Started(10, 40))
        live(events.StepLogged(20, 40, {"class": 0.5, "contrast": 0.25}, 99.6))
        task = live.bar.tasks[0]
        assert (task.completed, task.total) == (20, 40)
        assert task.fields["facts"] == "class 0.5000 contrast 0.2500  100 images/s"
