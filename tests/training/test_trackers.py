"""Trackers by name: what each leaves behind, and the sentences about one that cannot start."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.training.trackers import check_tracker, flat_settings, open_tracker
from support.runs import logged


def test_tensorboard_is_the_default_and_none_leaves_nothing(run_small: Any) -> None:
    assert list((run_small() / "tensorboard").glob("events*"))
    assert not (run_small("train.tracker=none") / "tensorboard").exists()


def test_the_tracker_changes_no_bit_of_the_run(run_small: Any) -> None:
    assert logged(run_small("train.tracker=none"), "class") == logged(run_small(), "class")


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_package_is_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch, configure: Any) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=f"^train.tracker={name} needs the package {name}, .*pip install {name}, or"):
        open_tracker(configure(f"train.tracker={name}"), Path("unused"))
    check_tracker("none")


def test_a_missing_package_is_noticed_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, configure: Any, tmp_path: Path
) -> None:
    from scob.training.train import train

    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"train\.tracker=wandb needs the package wandb"):
        train(configure("train.tracker=wandb"), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_settings_have_their_dotted_names(configure: Any) -> None:
    flat = flat_settings(configure("scob.tau=1", "train.epochs=4"))
    assert flat["method"] == "scob" and flat["scob.tau"] == 1.0 and flat["train.epochs"] == 4
    assert all(isinstance(value, str | int | float | bool) for value in flat.values())


def train_in_a_process(words: tuple[str, ...], out: Path, **environment: str) -> None:
    """`scob train` in a process of its own: trackers keep threads and global state."""
    command = [sys.executable, "-m", "scob", "train", *words, "--out", str(out)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_wandb_gets_the_losses(small_words: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    train_in_a_process((*small_words, "train.tracker=wandb", "train.epochs=1"), tmp_path / "run", WANDB_MODE="offline")
    [stored] = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    assert b"loss/class" in stored.read_bytes()


def test_mlflow_gets_the_losses(small_words: tuple[str, ...], tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    store = f"sqlite:///{tmp_path}/mlflow.db"
    train_in_a_process(
        (*small_words, "train.tracker=mlflow", "train.epochs=1"), tmp_path / "run", MLFLOW_TRACKING_URI=store
    )
    client = mlflow.MlflowClient(store)
    [run] = client.search_runs([client.get_experiment_by_name("scob").experiment_id])
    assert run.data.params["train.tracker"] == "mlflow" and run.info.run_name == "run"
    steps = [metric.step for metric in client.get_metric_history(run.info.run_id, "loss/class")]
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [record["step"] for record in records if record["kind"] == "step"]
