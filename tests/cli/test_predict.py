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
        "--wide",
        "--bom",
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
    assert err == f"1 image, 1.0 labels per image; most frequent: {row['labels']} (1)\n"


def test_the_ending_of_the_file_is_the_format(
    scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    assert scob("predict", small.run, small.files[0], "-o", path, "--device", "cpu")[0] == 0
    assert "image" in json.loads(path.read_text())


def test_a_spreadsheet_is_refused_with_what_to_write_instead(
    refused: Callable[..., str], small: Small, tmp_path: Path
) -> None:
    said = refused("predict", small.run, small.files[0], "-o", tmp_path / "out.xlsx")
    assert "writes no .xlsx files" in said and "out.csv --bom" in said
    assert not (tmp_path / "out.xlsx").exists()


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


def test_one_column_per_class_and_a_sentence_at_the_end(
    scob: Callable[..., tuple[int, str, str]], refused: Callable[..., str], small: Small
) -> None:
    code, out, err = scob("predict", small.run, *small.files[:3], "--wide", "--topk", "2")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and len(rows) == 3 and all(sum(row[name] == "1" for name in row) == 2 for row in rows)
    assert "3 images, 2.0 labels per image; most frequent: " in err
    assert "--wide and --bom are for CSV" in refused("predict", small.run, small.files[0], "--wide", "-f", "json")
