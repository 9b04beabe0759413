"""`scob train` as a user runs it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scob.cli.train import read_config, show


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("train") == [
        "--images",
        "--val",
        "--backbone",
        "--device",
        "--init",
        "--out",
        "--resume",
        "--extend",
        "--methods-folder",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a settings file"),
        (("demo", "--val", "labels.csv"), "--val needs --images"),
        (("demo", "--extend", "epochs=9"), "--extend needs --resume RUN"),
        (("demo", "--init", "run", "--backbone", "x"), "leave out --backbone"),
        (("--resume", "run", "--out", "other"), "leave out --images, --init, --backbone and --out"),
        (("demo", "train.epoch=3"), "train.epochs"),
    ],
)
def test_wrong_uses(refused: Callable[..., str], words: tuple[str, ...], message: str) -> None:
    assert message in refused("train", *words)


def test_settings_come_from_a_packaged_file_then_from_words() -> None:
    config = read_config(["demo", "train.epochs=3"], "", "cpu")
    assert (config.train.epochs, config.train.device) == (3, "cpu")
    assert config.data.source.startswith("scenes")


@pytest.mark.parametrize("name", ["coco2014", "configs/coco2014.yaml"])
def test_a_preset_outranks_a_packaged_file_by_name_or_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    config = read_config([name, "data.source=elsewhere", "preset=paper"], "", "")
    assert (config.train.epochs, config.train.batch, config.train.holdout) == (30, 8, 0)
    assert (config.data.source, config.data.format) == ("elsewhere", "coco")
    assert read_config([name, "train.epochs=3", "preset=paper"], "", "").train.epochs == 3


def test_words_alone_are_settings_too() -> None:
    words = ["train.epochs=3"]
    assert read_config(words, "somewhere", "").model.backbone == "somewhere"
    assert words == ["train.epochs=3"]


def test_the_end_of_a_run_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    summary = {"method": "scob", "selected_epoch": 1, "epochs": 3, "curve": [{"mAP-observed": 40.0}], "seconds": 75.0}
    show(summary, Path("runs/my photos"))
    shown = capsys.readouterr().out
    assert "scob predict 'runs/my photos' IMAGES" in shown and "scob recover 'runs/my photos'" in shown
    assert "2 of 3" in shown and "75 seconds" in shown
