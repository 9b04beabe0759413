"""The demo, small: all rows, the files it writes, and a page that fetches nothing."""

import json
import re
from pathlib import Path

import pytest

from scob.labels import Labels
from scob.studies.demo import demo, demo_config
from scob.studies.demo_results import COLUMNS, METHODS, Demo

SMALL = ["data.source=scenes:96x64", "data.size=64", "train.epochs=2", "model.width=16", "model.feedforward=32"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Demo]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo(folder, 1, [*SMALL, "model.projection=16"])


def test_every_method_has_every_number(made: tuple[Path, Demo]) -> None:
    stored = json.loads((made[0] / "results.json").read_text())["results"]
    assert set(stored) == set(METHODS)
    for row in stored.values():
        assert set(row) == set(COLUMNS)
        assert all(0 <= value <= 100 for values in row.values() for value in values)


def test_all_methods_saw_the_same_labels(made: tuple[Path, Demo]) -> None:
    drawn = {Labels.load(made[0] / "runs" / f"{m}-0" / "labels.safetensors").fingerprint for m in METHODS}
    assert len(drawn) == 1


def test_the_page_is_self_contained(made: tuple[Path, Demo]) -> None:
    text = (made[0] / "report.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text)
    assert text.count("class='scene'") == len(made[1].pictures) > 0
    for name in METHODS.values():
        assert name in text


def test_the_pointing_game_was_played(made: tuple[Path, Demo]) -> None:
    p = made[1].pointing
    assert 0 <= p["inside"] <= 1 and 0 < p["by_chance"] < 1 and p["images"] > 50


def test_a_preset_outranks_the_demos_settings() -> None:
    config = demo_config(3, ["preset=paper", "train.epochs=2"])
    assert (config.train.epochs, config.train.batch, config.model.width, config.scob.momentum) == (2, 8, 512, 0.999)
    assert (config.labels.seed, config.train.seed, config.data.size) == (3, 3, 96)
