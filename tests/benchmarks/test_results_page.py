"""docs/results.md is what the stored runs say; new runs replace older ones and must share their settings."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from results_data import RESULTS, data_sets, read_runs
from results_page import DOCS, page


def stored_run(name: str, seed: int, last: float, data: str = "coco2014small", **scob: Any) -> dict[str, Any]:
    curve = [{"epoch": 0, "mAP": last, "mAP-holdout-full": last}]
    return {
        "data": data, "name": name, "seed": seed, "words": [], "candidate": False, "last": last, "curve": curve,
        "classes": 80, "train_images": 3600, "evaluate_images": 1500,
        "settings": {"scob": {"lambda_c": 0.5, **scob}, "train": {"seed": seed}},
    }  # fmt: skip


def folder_with(tmp_path: Path, runs: list[dict[str, Any]]) -> Path:
    shutil.copy(RESULTS / "voc2007.json", tmp_path)
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    return tmp_path


def test_the_page_is_current() -> None:
    assert (DOCS / "results.md").read_text(encoding="utf-8") == page()
    assert "<!--" not in page()
    for data in data_sets(read_runs()):
        assert (DOCS / "images" / f"{data.name}-curves.png").is_file()


def test_a_new_file_of_runs_is_all_it_takes(tmp_path: Path) -> None:
    runs = [stored_run("scob", seed, 60.0 + seed) for seed in range(3)]
    runs += [stored_run("role-smt", seed, 59.0 + 1.1 * seed) for seed in range(3)]
    text = page(folder_with(tmp_path, runs))
    assert "### COCO2014small" in text and "`lambda_c=0.5`" in text and "80 classes, 3,600 training images" in text
    assert "61.00 ± 1.00" in text and "+0.90 ± 0.10 (3): **holds**" in text
    assert "### VOC 2007" in text and "older than today's defaults" in text


def test_new_runs_on_voc_replace_the_older_ones(tmp_path: Path) -> None:
    text = page(folder_with(tmp_path, [stored_run("scob", 0, 88.0, data="voc2007")]))
    assert "older than today's defaults" not in text and "| Scob | 1 | 88.00 |" in text


def test_runs_of_two_defaults_are_not_averaged(tmp_path: Path) -> None:
    mixed = [stored_run("scob", 0, 60.0), stored_run("scob", 1, 61.0, lambda_c=0.1)]
    with pytest.raises(SystemExit, match=r"scob on coco2014small has scob.lambda_c=0.5 in one run and 0.1 in another"):
        read_runs(folder_with(tmp_path, mixed))
    read_runs(folder_with(tmp_path, [mixed[0], stored_run("scob", 1, 61.0)]))
