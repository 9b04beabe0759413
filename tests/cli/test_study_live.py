"""The progress of a study: which run of how many, and what its runs remark."""

import pytest

from scob.cli.study_live import StudyLive
from scob.training.events import EpochMeasured, Note, RunBegins, RunsPlanned, Started, StepTaken


def test_what_a_method_remarks_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyLive() as display:
        display(Note("sst: class vectors are learned"))
    assert "class vectors are learned" in capsys.readouterr().err


def test_every_run_is_numbered_and_has_a_bar_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyLive() as display:
        display(RunsPlanned(2))
        for name in ("an", "scob"):
            display(RunBegins(name))
            display(Started(0, 8))
            display(StepTaken(3, 8))
            assert [task.completed for task in display.bar.tasks] == [3]
        display(EpochMeasured(0, 4, {"mAP": 61.23}, 2.0))
        assert display.bar.tasks[0].fields["facts"] == "epoch 1: mAP 61.2"
    shown = capsys.readouterr().err
    assert "run 1 of 2: an" in shown and "run 2 of 2: scob" in shown
