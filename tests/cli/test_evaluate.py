"""`scob evaluate` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path

from support.small_model import Small


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("evaluate") == [
        "--data",
        "--split",
        "--masks",
        "--out",
        "--format",
        "--threshold",
        "--mirror",
        "--batch",
        "--workers",
        "--cache",
        "--difficult",
        "--skip-bad",
        "--device",
        "--json",
    ]


def test_the_table_and_the_files(scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path) -> None:
    code, out, err = scob("evaluate", small.run, "--out", tmp_path, "--device", "cpu")
    assert code == 0
    assert "mAP" in out and "top 3" in out
    assert err.endswith(f"Written: {tmp_path}\n")
    stored = json.loads((tmp_path / "evaluation.json").read_text())
    again = scob("evaluate", small.run, "--out", tmp_path, "--device", "cpu", "--json")
    assert json.loads(again[1])["mAP"] == stored["mAP"]


def test_difficult_is_checked(refused: Callable[..., str]) -> None:
    assert "--difficult is 'maybe'" in refused("evaluate", "run", "--difficult", "maybe")


def test_no_model(refused: Callable[..., str]) -> None:
    assert "there is no model at nowhere" in refused("evaluate", "nowhere")


def test_masks_are_a_table_and_a_file(scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path) -> None:
    code, out, err = scob("evaluate", small.run, "--masks", "--out", tmp_path, "--device", "cpu")
    assert code == 0
    assert "observed" in out and "predicted" in out and "Guidance, 4 x 4 (stage 3): F1" in out
    assert "Pairs named but not there" in out and "Explained: mean IoU over classes" in out
    assert "Observed labels: training images, scenes:96x64, split train\n" in err
    assert err.endswith(f"Written: {tmp_path / 'masks.json'}\n")
    stored = json.loads((tmp_path / "masks.json").read_text())
    again = scob("evaluate", small.run, "--masks", "--out", tmp_path, "--device", "cpu", "--json")
    assert json.loads(again[1]) == stored and "max-pooled" in stored["definitions"]["guidance"]


def test_masks_refuse_what_they_cannot_use(refused: Callable[..., str], small: Small) -> None:
    assert "--mirror, --workers and --cache" in refused("evaluate", small.run, "--masks", "--mirror")
    assert "give the run folder" in refused("evaluate", small.run / "model", "--masks")
    assert "--difficult is 'maybe'" in refused("evaluate", small.run, "--masks", "--difficult", "maybe")
