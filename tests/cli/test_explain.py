"""`scob explain` as a user runs it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from support.small_model import Small


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("explain") == [
        "--out",
        "--class",
        "--masks",
        "--overlays",
        "--sheet",
        "--topk",
        "--threshold",
        "--mask-threshold",
        "--cam",
        "--mirror",
        "--batch",
        "--device",
    ]


def test_explanations_are_written(scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path) -> None:
    words = ("--topk", 1, "--masks", "none", "--no-overlays", "--mirror", "--device", "cpu", "-o", tmp_path / "out")
    code, _, err = scob("explain", small.run, small.files[0], *words)
    assert code == 0
    assert re.match(r"1 image, 1.0 labels per image; most frequent: \w+ \(1\); written to ", err.splitlines()[0])
    assert (tmp_path / "out" / "explanations.json").is_file() and not (tmp_path / "out" / "sheet.png").exists()


def test_a_contact_sheet_and_no_clear_place_are_announced(
    scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path
) -> None:
    words = ("--class", "tree", "--class", "car", "--mask-threshold", 0, "--masks", "png", "--sheet", "--device", "cpu")
    code, _, err = scob("explain", small.run, *small.files[:3], *words, "-o", tmp_path / "out")
    assert code == 0
    records = json.loads((tmp_path / "out" / "explanations.json").read_text())
    unclear = [r for r in records if not r["clear_place"]]
    assert len(records) == 6 and unclear  # at a threshold of 0, hardly any map has an outside
    assert all(r["mask"] is None and r["box"] is None and r["boxes"] == [] for r in unclear)
    assert f"no clear place for {len(unclear)} of them: the evidence is too thin to show where\n" in err
    assert err.endswith(f"contact sheet: {tmp_path / 'out' / 'sheet.html'} and {tmp_path / 'out' / 'sheet.png'}\n")
    assert (tmp_path / "out" / "sheet.html").is_file()
    with Image.open(tmp_path / "out" / "sheet.png") as picture:
        assert picture.width > 400


def test_no_model(refused: Callable[..., str], small: Small) -> None:
    assert "there is no model at nowhere" in refused("explain", "nowhere", small.files[0])
