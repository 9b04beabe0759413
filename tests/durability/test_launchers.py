"""`torchrun`, `accelerate launch` and plain Python, with and without --device: every image once, the same training."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scob.training.checkpoint import list_checkpoints
from support.runs import trained_weights
from support.small_model import Small
from support.struck import ENVIRONMENT, SCOB, children, launched

ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_machines=1", "--mixed_precision=no"]
ACCELERATE += ["--dynamo_backend=no", "--num_cpu_threads_per_process=1"]
DEVICES: list[list[str]] = [[], ["--device", "cpu"]]


def command(launcher: str, count: int, words: list[str]) -> list[str]:
    if launcher == "torchrun":
        return launched(count, *words)
    if launcher == "accelerate":
        return [*ACCELERATE, f"--num_processes={count}", str(SCOB), *words]
    return [str(SCOB), *words]


def finish(words: list[str], timeout: float = 300) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done


def named(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES, ids=["no device", "cpu"])
@pytest.mark.parametrize(("launcher", "count"), [("torchrun", 2), ("torchrun", 3), ("accelerate", 2)])
def test_every_image_is_predicted_exactly_once(
    small: Small, tmp_path: Path, faults: Any, launcher: str, count: int, device: list[str]
) -> None:
    files = [str(file) for file in small.files[:7]]
    words = ["predict", str(small.run), *files, "--batch", "2", *device, "-o"]
    with faults.inject("torchrun, accelerate or plain Python, 1 to 3 processes") as fault:
        finish(command("plain", 1, [*words, str(tmp_path / "alone.csv")]))
        finish(command(launcher, count, [*words, str(tmp_path / "several.csv")]))
        found = [row["image"] for row in named(tmp_path / "several.csv")]
        fault.lost = len(set(files) - set(found))
        assert found == files
        assert [r["labels"] for r in named(tmp_path / "several.csv")] == [
            r["labels"] for r in named(tmp_path / "alone.csv")
        ]


@pytest.mark.slow
def test_an_evaluation_counts_every_image_once(small: Small, tmp_path: Path, faults: Any) -> None:
    results = []
    words = ["evaluate", str(small.run), "--split", "train", "--out"]
    with faults.inject("torchrun, accelerate or plain Python, 1 to 3 processes"):
        for count in (1, 2):
            launcher = "torchrun" if count > 1 else "plain"
            finish(command(launcher, count, [*words, str(tmp_path / str(count))]))
            results.append(json.loads((tmp_path / str(count) / "evaluation.json").read_text()))
        assert results[0] == results[1]


@pytest.mark.slow
def test_torchrun_trains_without_being_told_the_device(
    small_words: tuple[str, ...], tmp_path: Path, faults: Any
) -> None:
    words = [word for word in small_words if not word.startswith("train.device=")]
    words += ["train.precision=fp64", "model.dropout=0", "train.epochs=2"]
    with faults.inject("torchrun, accelerate or plain Python, 1 to 3 processes"):
        finish(command("plain", 1, ["train", *words, "--out", str(tmp_path / "one")]))
        done = finish(command("torchrun", 2, ["train", *words, "--out", str(tmp_path / "two")]))
        one, two = trained_weights(tmp_path / "one"), trained_weights(tmp_path / "two")
        assert max(float((one[k].double() - two[k].double()).abs().max()) for k in one) < 1e-5
        assert "destroy_process_group" not in done.stderr  # the group was left in order


@pytest.mark.slow
def test_a_process_that_is_alive_but_silent_ends_the_others(
    small_words: tuple[str, ...], tmp_path: Path, faults: Any
) -> None:
    run, seconds = tmp_path / "run", 15
    words = ["train", *small_words, "train.epochs=2000", "train.checkpoint_steps=2", "--out", str(run)]
    environment = {**ENVIRONMENT, "SCOB_PEER_TIMEOUT": str(seconds)}
    with faults.inject("one of two processes silent (SIGSTOP)", told=True):
        process = subprocess.Popen(launched(2, *words), env=environment, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 120
        while not list_checkpoints(run / "checkpoints") and time.monotonic() < end:
            time.sleep(0.05)
            assert process.poll() is None, process.communicate()[1]
        os.kill(children(process.pid)[1], signal.SIGSTOP)
        printed = process.communicate(timeout=120)[1]  # torchrun gives the silent one 30 seconds to end, then kills it
        assert process.returncode != 0
        assert len(re.findall(rf"did\s+not\s+answer\s+for\s+{seconds}\s+seconds", printed)) == 1, printed
        assert not children(process.pid)


@pytest.mark.slow
def test_a_verb_for_one_process_refuses_several(small: Small) -> None:
    done = subprocess.run(
        launched(2, "thresholds", str(small.run)), env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    assert "scob thresholds runs in one process" in done.stderr
