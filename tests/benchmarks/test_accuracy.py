"""The accuracy script runs real jobs in several processes, and reports candidates by held-out images only."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accuracy import Pool, Session, arguments, candidate_report, common_of
from accuracy_jobs import Job, Schedule
from accuracy_worker import Common, LoadedData, run_job

ROOT = Path(__file__).parents[2]


def run_script(out: Path, small_words: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """The script on drawn scenes, on the CPU, with runs of ten steps."""
    kept = [w for w in small_words if not w.startswith(("data.source", "data.evaluate", "model.backbone"))]
    kept += ["train.epochs=2", "train.holdout=0.2", "train.compile=false"]
    backbone = next(w for w in small_words if w.startswith("model.backbone=")).partition("=")[2]
    command = [sys.executable, str(ROOT / "benchmarks" / "accuracy.py"), "--data", "drawn=scenes:40x64"]
    command += ["--backbone", backbone, "--out", str(out), "--extra", ",".join(kept), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def test_two_workers_run_jobs_and_a_failed_one_stops_no_other(tmp_path: Path, small_words: tuple[str, ...]) -> None:
    rows = ("role-smt", "full-smt", "wrong:scob.tau=-1")
    first = run_script(tmp_path, small_words, "--together", "2", "--seeds", "0,1", *rows)
    assert first.returncode == 1, first.stderr
    assert first.stdout.count("FAILED") == 2 and "scob.tau is -1" in first.stdout
    results = lines_of(tmp_path)
    assert sorted((r["name"], r["seed"]) for r in results) == [
        ("full-smt", 0), ("full-smt", 1), ("role-smt", 0), ("role-smt", 1),
    ]  # fmt: skip
    for result in results:
        assert [point["epoch"] for point in result["curve"]] == [0, 1]
        assert result["last"] == result["curve"][-1]["mAP"]
        assert result["holdout_last"] == result["curve"][-1]["mAP-holdout-full"]
        assert (result["train_images"], result["settings"]["train"]["seed"]) == (32, result["seed"])
    by_seed = {(r["name"], r["seed"]): r["last"] for r in results}
    assert by_seed["role-smt", 0] != by_seed["role-smt", 1]

    again = run_script(tmp_path, small_words, "--together", "1", "--seeds", "0,1", *rows[:2])
    assert again.returncode == 0 and "4 runs are in" in again.stdout
    assert lines_of(tmp_path) == results


def test_shared_features_give_the_same_run_as_a_run_alone(
    tmp_path: Path, small_words: tuple[str, ...], configure: Any
) -> None:
    from scob.training.train import train

    words = ("data.evaluate=val", "train.epochs=2", "train.holdout=0.2", "train.compile=false")
    common, loaded = Common({"drawn": ()}, (*small_words, *words), 1), LoadedData()
    results = [run_job(Job("drawn", "scob", ("method=scob",), seed), common, loaded) for seed in (0, 3)]
    assert results[0]["loading"] > results[1]["loading"]
    alone = train(
        configure(*words, "train.seed=3", "train.holdout_labels=full", "train.flip_test=true"), tmp_path / "alone"
    )
    assert results[1]["last"] == pytest.approx(alone.curve[-1]["mAP"], abs=1e-3)
    assert results[0]["last"] != pytest.approx(results[1]["last"], abs=1e-3)


def test_candidates_are_ranked_by_held_out_images_of_all_data_sets() -> None:
    def result(name: str, data: str, held_out: float, last: float) -> dict[str, Any]:
        return {
            "name": name, "data": data, "seed": 0, "candidate": True, "words": [], "holdout_last": held_out,
            "last": last,
        }  # fmt: skip

    lines = candidate_report(
        [
            result("role-smt", "voc", 80.0, 50.0), result("role-smt", "coco", 40.0, 50.0),
            result("strong", "voc", 85.0, 99.0), result("strong", "coco", 36.0, 99.0),
            result("even", "voc", 82.0, 10.0), result("even", "coco", 41.0, 10.0),
            result("half", "voc", 99.0, 99.0),
        ]
    )  # fmt: skip
    assert [line.split()[0] for line in lines] == ["even", "strong", "role-smt", "not"]
    assert "61.50" in lines[0] and "coco 41.00 (+1.00)" in lines[0] and "voc 82.00 (+2.00)" in lines[0]
    assert "coco 36.00 (-4.00)" in lines[1]
    assert lines[-1] == "not on every data set: half"


def test_a_data_set_may_bring_settings_of_its_own() -> None:
    extra = "scob.cam_window=[3,1],train.ema=0"
    source = "coco=c/COCO,data.evaluate=val2014"
    options = arguments(["--data", source, "--backbone", "b", "--out", "o", "--extra", extra])
    common = common_of(options)
    assert common.data == {"coco": ("data.source=c/COCO", "data.evaluate=val2014")}
    assert common.words[-2:] == ("scob.cam_window=[3,1]", "train.ema=0")


def test_a_worker_that_dies_is_replaced(tmp_path: Path, small_words: tuple[str, ...]) -> None:
    words = (*small_words, "data.evaluate=val", "train.epochs=1", "train.compile=false")
    pool = Pool(Common({"drawn": ()}, words, 1), 1)
    jobs = [Job("drawn", "role-smt", ("method=role",), seed) for seed in (0, 1)]
    worker = pool.start()
    worker.process.kill()
    worker.process.join()
    session = Session(pool, Schedule(jobs, 1), tmp_path / "results.jsonl", until=math.inf)
    session.run()
    assert session.failed == jobs[:1]
    assert [result["seed"] for result in lines_of(tmp_path)] == [1]
