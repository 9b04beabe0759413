"""What is printed about a run before it trains, when it is stopped and when it has ended."""

import json
from pathlib import Path

import pytest
from PIL import Image

from scob.cli.run_report import show, show_layouts, show_stopped


def test_the_end_of_a_run_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    summary = {"method": "scob", "selected_epoch": 1, "epochs": 3, "curve": [{"mAP-observed": 40.0}], "seconds": 75.0}
    show(summary, Path("runs/my photos"))
    shown = capsys.readouterr().out
    assert "scob predict 'runs/my photos' IMAGES" in shown and "scob recover 'runs/my photos'" in shown
    assert "2 of 3" in shown and "75 seconds" in shown
    assert "not reported (no evaluation split)" in shown


def test_what_images_and_labels_are_taken_for_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "a.png")
    table = tmp_path / "val.csv"
    table.write_text("image,label\ncat/a.png,cat\n")
    show_layouts(tmp_path, None, ["data.format=folder"])
    show_layouts(None, table, [])
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "taken as: one folder per class, 2 classes"
    assert len(said) == 2 and said[1].startswith("--val taken as: ")


def test_a_stopped_run_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_stopped(tmp_path)
    assert capsys.readouterr().err == "Stopped before training began.\n"
    (tmp_path / "config.yaml").touch()
    show_stopped(tmp_path)
    assert capsys.readouterr().err == f"Stopped and saved. Continue with: scob train --resume {tmp_path}\n"
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"kind": "epoch", "epoch": 0}) + "\n")
    show_stopped(tmp_path)
    said = capsys.readouterr().err
    assert "Stopped and saved after 1 epoch." in said and said.splitlines()[-1].endswith("--finish")
