"""The progress of a study: which run of how many, and what its runs remark."""

import pytest

from scob.cli import console
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
    shown = capsys.readouterr().err
    assert "run 1 of 2: an" in shown and "run 2 of 2: scob" in shown


def test_on_a_terminal_the_last_epoch_is_beside_the_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.err, "_force_terminal", True)
    with StudyLive() as display:
        display(Started(0, 8))
        display(EpochMeasured(0, 4, {"mAP": 61.23}, 2.0))
        assert display.bar.tasks[0].fields["facts"] == "epoch 1: mAP 61.2"
    assert "epoch 1/4" not in capsys.readouterr().err


def test_a_log_file_has_a_line_for_every_run_and_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyLive() as display:
        display(RunsPlanned(1))
        display(RunBegins("role"))
        display(Started(0, 8))
        for epoch in range(2):
            display(EpochMeasured(epoch, 2, {"mAP": 61.23 + epoch, "mAP-observed": None}, 2.0))
    lines = [line.strip() for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert lines == ["run 1 of 1: role", "epoch 1/2  mAP 61.23  2.0 s", "epoch 2/2  mAP 62.23  2.0 s"]
