"""`scob review` as a user runs it."""

from collections.abc import Callable
from pathlib import Path


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("review") == ["--host", "--port", "--token", "--open", "--write"]


def test_decisions_so_far_are_written(scob: Callable[..., tuple[int, str, str]], own_run: Path) -> None:
    assert scob("recover", own_run, "--min", 0, "--top", 3, "--no-masks", "--device", "cpu")[0] == 0
    code, out, err = scob("review", own_run, "--write")
    assert (code, out) == (0, "")
    path = own_run / "recovered" / "reviewed.csv"
    assert path.is_file()
    assert err == f"0 accepted, 0 rejected: {path}\nUse them with: scob recover {own_run} --import {path}\n"


def test_no_suggestions(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "scob recover" in refused("review", tmp_path)
