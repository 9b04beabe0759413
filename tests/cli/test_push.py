"""`scob push`: its options. What it does is tested with the hub (tests/inference/test_hub.py)."""

from collections.abc import Callable
from pathlib import Path


def test_the_options(options_of: Callable[..., list[str]]) -> None:
    assert options_of("push") == ["--licence", "--data", "--private"]


def test_a_model_that_is_not_there_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "there is no model at" in refused("push", tmp_path / "nothing", "me/scenes")
