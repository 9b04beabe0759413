"""`scob explain` as a user runs it."""

from collections.abc import Callable
from pathlib import Path

from support.small_model import Small


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("explain") == [
        "--out",
        "--class",
        "--masks",
        "--overlays",
        "--topk",
        "--threshold",
        "--mask-threshold",
        "--cam",
        "--batch",
        "--device",
    ]


def test_explanations_are_written(scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path) -> None:
    words = ("--topk", 1, "--masks", "none", "--no-overlays", "--device", "cpu", "-o", tmp_path / "out")
    code, _, err = scob("explain", small.run, small.files[0], *words)
    assert code == 0
    assert err == f"1 class in 1 image; written to {tmp_path / 'out'}/\n"
    assert (tmp_path / "out" / "explanations.json").is_file()


def test_no_model(refused: Callable[..., str], small: Small) -> None:
    assert "there is no model at nowhere" in refused("explain", "nowhere", small.files[0])
