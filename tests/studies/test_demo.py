"""The demo, small: all rows, the files it writes, and a page that fetches nothing."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from scob.config import Config, parse_yaml
from scob.errors import UserError
from scob.labels import Labels
from scob.methods.pairs import PairsSettings
from scob.studies.demo import demo, demo_config, rows_at_once
from scob.studies.demo_results import COLUMNS, LONGEST_FIRST, METHODS, Demo
from scob.training.events import EpochMeasured, Listener, RunEnds

SMALL = ["data.source=scenes:96x64", "data.size=64", "train.epochs=2", "model.width=16", "model.feedforward=32"]
WORDS = [*SMALL, "model.projection=16", "train.device=cpu", "train.evaluate_every=1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Demo]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo(folder, 1, WORDS)


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
    assert re.findall(r"<tr class=ours><td>(.*?)</td>", text) == ["Scob", "Pairs"]
    assert re.search(r"Scob closes <b>\S+%</b> of the gap from ROLE to full labels, Pairs <b>\S+%</b>", text)


def files_in(run: Path) -> list[str]:
    """All but those named after the time and the process."""
    return sorted(str(file.relative_to(run)) for file in run.rglob("*") if "events.out" not in file.name)


def test_two_rows_at_a_time_give_the_same_bits_as_one_after_the_other(made: tuple[Path, Demo], tmp_path: Path) -> None:
    heard: dict[str, list[object]] = {}

    def listener_of(method: str, seed: int, config: Config) -> Listener:
        return heard.setdefault(method, []).append

    folder, one = made
    two = demo(tmp_path, 1, WORDS, listener_of, at_once=2)
    assert (two.values, two.per_class, two.pointing) == (one.values, one.per_class, one.pointing)
    assert list(two.curves) == list(one.curves) == list(METHODS) and len(two.pictures) == len(one.pictures)
    assert list(heard) == list(LONGEST_FIRST)
    for method in METHODS:
        runs = folder / "runs" / f"{method}-0", tmp_path / "runs" / f"{method}-0"
        assert files_in(runs[0]) == files_in(runs[1])
        first, second = ((run / "model" / "model.safetensors").read_bytes() for run in runs)
        assert first == second
        measured = [event.epoch for event in heard[method] if isinstance(event, EpochMeasured)]
        assert measured == [0, 1] and isinstance(heard[method][-1], RunEnds)


def test_an_error_in_a_worker_is_raised_here(made: tuple[Path, Demo], tmp_path: Path) -> None:
    shutil.copytree(made[0] / "runs" / "scob-0", tmp_path / "runs" / "scob-0")
    with pytest.raises(UserError, match=r"scob-0.*already"):
        demo(tmp_path, 1, WORDS, at_once=2)
    assert not (tmp_path / "results.json").exists()


def test_rows_are_trained_side_by_side_only_on_a_cpu_with_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (torch.get_num_threads(), rows_at_once("cpu")) == (1, 1)
    try:
        torch.set_num_threads(2)
        assert (rows_at_once("cpu"), rows_at_once("meta")) == (2, 1)
        torch.set_num_threads(64)
        assert rows_at_once("cpu") == len(METHODS)
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "0")
        assert rows_at_once("cpu") == 1
    finally:
        torch.set_num_threads(1)


def test_the_pointing_game_was_played(made: tuple[Path, Demo]) -> None:
    p = made[1].pointing
    assert 0 <= p["inside"] <= 1 and 0 < p["by_chance"] < 1 and p["images"] > 50


def test_the_row_with_pairs_has_the_settings_that_scob_train_gives_it(made: tuple[Path, Demo]) -> None:
    stored = parse_yaml((made[0] / "runs" / "pairs-0" / "config.yaml").read_text())
    assert stored["pairs"] == PairsSettings().model_dump()
    assert demo_config(0, ["pairs.contrast=true"]).method_section("pairs") == {"contrast": True}


def test_few_epochs_are_evaluated_unless_more_are_asked_for() -> None:
    assert demo_config(0).train.evaluate_every == 4 and demo_config(0, WORDS).train.evaluate_every == 1


def test_a_preset_outranks_the_demos_settings() -> None:
    config = demo_config(3, ["preset=paper", "train.epochs=2"])
    assert (config.train.epochs, config.train.batch, config.model.width, config.scob.momentum) == (2, 8, 512, 0.999)
    assert (config.labels.seed, config.train.seed, config.data.size) == (3, 3, 96)
