"""`torchrun`, `accelerate launch` and plain Python, with and without --device: every image once, the same training."""

import csv
import json
import os
import re
import signal
import socket
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
LAUNCHERS = ("torchrun", "accelerate", "python")
DEVICES: list[list[str]] = [[], ["--device", "cpu"]]


def command(launcher: str, count: int, words: list[str]) -> list[str]:
    if launcher == "torchrun":
        return launched(count, *words)
    if launcher == "accelerate":
        return [*ACCELERATE, f"--num_processes={count}", str(SCOB), *words]
    return [str(SCOB), *words]


def finish(launcher: str, count: int, words: list[str], timeout: float = 300) -> str:
    """Run `scob WORDS` in that many processes to its end; returns what they wrote to stderr."""
    environments: list[dict[str, str]] = [ENVIRONMENT]
    if launcher == "python" and count > 1:  # started by hand, with the variables that every launcher sets
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(count)}
        environments = [{**ENVIRONMENT, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    both: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command(launcher, count, words), env=e, **both) for e in environments]
    try:
        printed = "".join(process.communicate(timeout=timeout)[1] for process in started)
    finally:
        for process in started:  # nothing is left running if one of them takes too long
            process.kill()
    assert all(process.returncode == 0 for process in started), printed
    return printed


def named(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


def predict_words(small: Small) -> list[str]:
    return ["predict", str(small.run), *(str(file) for file in small.files[:7]), "--batch", "2", "-o"]


def evaluate_words(small: Small) -> list[str]:
    return ["evaluate", str(small.run), "--split", "train", "--out"]


@pytest.fixture(scope="module")
def alone(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process without a launcher predicts and measures."""
    folder = tmp_path_factory.mktemp("alone")
    finish("python", 1, [*predict_words(small), str(folder / "predictions.csv")])
    finish("python", 1, [*evaluate_words(small), str(folder / "evaluation")])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES, ids=["no device", "cpu"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_image_is_predicted_exactly_once(
    small: Small, alone: Path, tmp_path: Path, faults: Any, launcher: str, count: int, device: list[str]
) -> None:
    files = [str(file) for file in small.files[:7]]
    with faults.inject("predict with torchrun, accelerate or plain Python, 1 to 3 processes") as fault:
        finish(launcher, count, [*predict_words(small), str(tmp_path / "predictions.csv"), *device])
        predicted = named(tmp_path / "predictions.csv")
        fault.lost = len(set(files) - {row["image"] for row in predicted})
        assert [row["image"] for row in predicted] == files
        assert [row["labels"] for row in predicted] == [row["labels"] for row in named(alone / "predictions.csv")]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES, ids=["no device", "cpu"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_evaluation_counts_every_image_once(
    small: Small, alone: Path, tmp_path: Path, faults: Any, launcher: str, count: int, device: list[str]
) -> None:
    with faults.inject("evaluate with torchrun, accelerate or plain Python, 1 to 3 processes"):
        finish(launcher, count, [*evaluate_words(small), str(tmp_path / "evaluation"), *device])
        measured = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
        assert measured == json.loads((alone / "evaluation" / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def trained_alone(small_words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    finish("python", 1, ["train", *precise(small_words), "--out", str(run)])
    return run


def precise(small_words: tuple[str, ...]) -> list[str]:
    words = [word for word in small_words if not word.startswith("train.device=")]
    return [*words, "train.precision=fp64", "model.dropout=0", "train.epochs=2"]


@pytest.mark.slow
@pytest.mark.parametrize("device", [[], ["train.device=cpu"]], ids=["no device", "cpu"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_training_equals_that_of_one_process(
    small_words: tuple[str, ...], trained_alone: Path, tmp_path: Path, faults: Any, launcher: str, count: int,
    device: list[str],
) -> None:  # fmt: skip
    with faults.inject("train with torchrun, accelerate or plain Python, 1 to 3 processes"):
        printed = finish(launcher, count, ["train", *precise(small_words), *device, "--out", str(tmp_path / "run")])
        one, other = trained_weights(trained_alone), trained_weights(tmp_path / "run")
        assert max(float((one[k].double() - other[k].double()).abs().max()) for k in one) < 1e-5
        assert "destroy_process_group" not in printed  # the group was left in order


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
