"""`scob export` as a user runs it."""

from collections.abc import Callable

from support.small_model import Small


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("export") == ["--out", "--format", "--int8", "--calibration", "--data", "--split", "--tolerance"]


def test_no_model(refused: Callable[..., str]) -> None:
    assert "there is no model at nowhere" in refused("export", "nowhere")


def test_another_format_is_refused(scob: Callable[..., tuple[int, str, str]], small: Small) -> None:
    code, _, err = scob("export", small.run, "--format", "torchscript")
    assert code == 2
    assert "onnx" in err and "Traceback" not in err
