"""`scob thresholds` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("thresholds") == ["--device", "--figures"]


def test_the_table_has_every_class(scob: Callable[..., tuple[int, str, str]], own_run: Path) -> None:
    code, out, err = scob("thresholds", own_run, "--no-figures", "--device", "cpu")
    assert code == 0
    classes = json.loads((own_run / "model" / "config.json").read_text())["classes"]
    assert all(name in out for name in classes)
    first, second = err.splitlines()
    assert first.startswith("F1 over all classes: ") and "that the model was not trained on" in first
    assert second == f"stored in {own_run / 'model'}; `scob predict` uses them"


def test_no_run(refused: Callable[..., str]) -> None:
    assert "nowhere" in refused("thresholds", "nowhere")
