"""`scob predict` as a user runs it."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from support.small_model import Small


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("predict") == [
        "--out",
        "--format",
        "--topk",
        "--threshold",
        "--include-scores",
        "--batch",
        "--device",
    ]


def test_predictions_go_to_stdout_and_the_summary_to_stderr(
    scob: Callable[..., tuple[int, str, str]], small: Small
) -> None:
    code, out, err = scob("predict", small.run, small.files[0], "--topk", 1, "--device", "cpu")
    assert code == 0
    [row] = csv.DictReader(io.StringIO(out))
    assert row["image"].endswith(small.files[0].name)
    assert err == "1 image\n"


def test_the_ending_of_the_file_is_the_format(
    scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    assert scob("predict", small.run, small.files[0], "-o", path, "--device", "cpu")[0] == 0
    assert "image" in json.loads(path.read_text())


def test_no_model(refused: Callable[..., str], small: Small) -> None:
    assert "there is no model at nowhere" in refused("predict", "nowhere", small.files[0])


def test_a_prediction_in_which_every_image_failed_exits_with_1(
    scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"x")
    code, _, err = scob("predict", small.run, tmp_path / "bad.jpg")
    assert code == 1 and "1 of them broken" in err
    assert scob("explain", small.run, tmp_path / "bad.jpg", "--out", tmp_path / "out")[0] == 1
    assert scob("predict", small.run, tmp_path / "bad.jpg", small.files[0])[0] == 0
