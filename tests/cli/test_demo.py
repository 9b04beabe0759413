"""`scob demo` as a user runs it."""

from collections.abc import Callable
from pathlib import Path

from scob.cli.demo import _free_folder


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("demo") == ["--seeds", "--out"]


def test_a_folder_with_a_demo_is_not_used_again(tmp_path: Path) -> None:
    assert _free_folder(tmp_path / "demo") == tmp_path / "demo"
    (tmp_path / "demo" / "runs").mkdir(parents=True)
    (tmp_path / "demo-2" / "runs").mkdir(parents=True)
    assert _free_folder(tmp_path / "demo") == tmp_path / "demo-3"


def test_a_wrong_setting_is_refused_before_anything_is_drawn(
    scob: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, out, err = scob("demo", "train.epoch=3", "--out", tmp_path / "demo")
    assert (code, out) == (2, "")
    assert "train.epochs" in err and "Traceback" not in err
    assert not (tmp_path / "demo").exists()
