"""Two and three processes over gloo: the same run as with one process."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from scob.training.checkpoint import latest_checkpoint
from support.struck import ENVIRONMENT, SCOB, children, launched, records

PRECISE = ("train.precision=fp64", "model.dropout=0", "train.check_processes=true", "train.epochs=2")
PRECISE += ("train.checkpoint_steps=2",)


def finish(command: list[str], timeout: float = 400) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)


def compare(one: Path, other: Path) -> float:
    """The largest difference of weights, moments, estimates, tree and masks."""
    found = [latest_checkpoint(run / "checkpoints") for run in (one, other)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].tensors.keys() == found[1].tensors.keys()
    first, second = ({**checkpoint.tensors, **nodes(checkpoint.tensors)} for checkpoint in found)
    largest = 0.0
    for name, tensor in first.items():
        if name.startswith("method.tree."):  # its nodes are compared
            continue
        a, b = tensor.double(), second[name].double()
        assert a.shape == b.shape, name
        if name.startswith("method.estimator.") and a.ndim:  # the last row takes the gradients of padding: none
            a, b = a[:-1], b[:-1]
        difference = np.nan_to_num((a - b).abs().numpy(), posinf=0)  # empty slots are -inf in both
        assert (a.isinf() == b.isinf()).all(), name
        largest = max(largest, float(difference.max()) if difference.size else 0.0)
    return largest


def nodes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tree's nodes in the order of class and image.

    Padding counts as an insertion and as a newcomer, so ages differ, and which of the empty slots a node gets.
    """
    table = state.get("method.tree.ids")
    if table is None:
        return {}
    classes, slots = (table >= 0).nonzero().unbind(1)
    order = np.lexsort((table[classes, slots].numpy(), classes.numpy()))
    classes, slots = classes[order], slots[order]
    values = {name: state[f"method.tree.{name}"][classes, slots] for name in ("ids", "scores", "features")}
    return {"classes of nodes": classes, **{f"{name} of nodes": value for name, value in values.items()}}


@pytest.fixture(scope="module")
def alone(small_words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process, batch 8."""
    run = tmp_path_factory.mktemp("alone") / "run"
    done = finish([str(SCOB), "train", *small_words, *PRECISE, "--out", str(run)])
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_several_processes_make_the_same_updates_as_one(
    small_words: tuple[str, ...], alone: Path, tmp_path: Path, count: int
) -> None:
    """The global batch of 8 is shared, and the processes compare the hashes of their state at every step."""
    run = tmp_path / "run"
    done = finish(launched(count, "train", *small_words, *PRECISE, "--out", str(run)))
    assert done.returncode == 0, done.stderr
    assert compare(alone, run) < 1e-5
    for a, b in zip(records(alone), records(run), strict=True):
        assert a.keys() == b.keys()
        assert all(a[k] == pytest.approx(b[k], abs=1e-6) for k in a if isinstance(a[k], float))
    assert done.stdout.count("Done") <= 1  # only one process prints


@pytest.mark.slow
def test_the_authors_choices_make_the_same_updates_in_two_processes(
    small_words: tuple[str, ...], tmp_path: Path
) -> None:
    words = ("train", *small_words, *PRECISE, "train.estimator=dense", "scob.tree_lifetime=epoch", "scob.init_epochs=0")
    for command in (
        [str(SCOB), *words, "--out", str(tmp_path / "one")],
        launched(2, *words, "--out", str(tmp_path / "two")),
    ):
        done = finish(command)
        assert done.returncode == 0, done.stderr
    assert compare(tmp_path / "one", tmp_path / "two") < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("count", "batch", "share"), [(2, 7, 0.6), (3, 8, 0.3), (2, 16, 1)])
def test_several_processes_contrast_the_same_images_as_one(
    small_words: tuple[str, ...], tmp_path: Path, count: int, batch: int, share: float
) -> None:
    """Neither the batch nor its contrasted part divides evenly, and the last batch is short: 40 images."""
    words = ("train", *small_words, *PRECISE, f"train.batch={batch}", f"scob.contrasted={share}", "scob.positive=self")
    for command in (
        [str(SCOB), *words, "--out", str(tmp_path / "one")],
        launched(count, *words, "--out", str(tmp_path / "many")),
    ):
        done = finish(command)
        assert done.returncode == 0, done.stderr
    assert compare(tmp_path / "one", tmp_path / "many") < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cap", "pairs", "ignore", "mime", "boostlu", "oracle-estimator"])
def test_other_methods_make_the_same_updates_in_two_processes(
    small_words: tuple[str, ...], tmp_path: Path, method: str
) -> None:
    """LL-R looks for the largest losses of each process's own images: for BoostLU it is switched off."""
    words = ("train", *small_words, *PRECISE, f"method={method}", "boostlu.delta=0")
    for command in (
        [str(SCOB), *words, "--out", str(tmp_path / "one")],
        launched(2, *words, "--out", str(tmp_path / "two")),
    ):
        done = finish(command)
        assert done.returncode == 0, done.stderr
    assert compare(tmp_path / "one", tmp_path / "two") < 1e-5


@pytest.mark.slow
def test_accelerate_launches_it_too(small_words: tuple[str, ...], alone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes=2", "--num_machines=1"]
    command += ["--mixed_precision=no", "--dynamo_backend=no", "--num_cpu_threads_per_process=1", str(SCOB)]
    done = finish([*command, "train", *small_words, *PRECISE, "--out", str(run)])
    assert done.returncode == 0, done.stderr
    assert compare(alone, run) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_dies_stops_the_others_and_the_run_continues_with_another_number(
    small_words: tuple[str, ...], tmp_path: Path, faults: Any, victim: int
) -> None:
    run = tmp_path / "run"
    words = [*small_words, *PRECISE, "train.epochs=300"]
    with faults.inject("one of two processes killed", told=True) as fault:
        process = subprocess.Popen(
            launched(2, "train", *words, "--out", str(run)), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + 300
        while not list((run / "checkpoints").glob("step-*")) and time.monotonic() < end:
            time.sleep(0.05)
            assert process.poll() is None, process.communicate()[1]
        os.kill(children(process.pid)[victim], signal.SIGKILL)
        struck = time.monotonic()
        said = process.communicate(timeout=120)[1]
        assert time.monotonic() - struck < 60
        assert process.returncode != 0
        assert len(re.findall(r"one of the 2 processes of\s+this\s+run\s+died", said)) <= 1
        assert "--resume" in said
        assert not children(process.pid)
        kept = latest_checkpoint(run / "checkpoints")
        assert kept is not None
        step = kept.progress.step
        # Continue with one process where the two stopped.
        resumed = subprocess.Popen([str(SCOB), "train", "--resume", str(run)], env=ENVIRONMENT, stderr=subprocess.PIPE)
        while time.monotonic() < end + 300:
            found = latest_checkpoint(run / "checkpoints")
            if found is not None and found.progress.step > step + 2:
                break
            assert resumed.poll() is None
            time.sleep(0.2)
        resumed.send_signal(signal.SIGTERM)
        assert resumed.wait(60) == 143
        steps = [r["step"] for r in records(run) if r["kind"] == "step"]
        fault.lost = sum(a + 1 != b for a, b in itertools.pairwise(steps))
        assert fault.lost == 0


@pytest.mark.slow
def test_a_run_of_two_processes_can_be_finished_by_three_or_by_one(
    small_words: tuple[str, ...], alone: Path, tmp_path: Path, faults: Any
) -> None:
    run = tmp_path / "run"
    with faults.inject("number of processes changed") as fault:
        process = subprocess.Popen(
            launched(2, "train", *small_words, *PRECISE, "--out", str(run)),
            env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        end = time.monotonic() + 300
        while not list((run / "checkpoints").glob("step-*")) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[1]
        assert not (run / "summary.json").exists(), said
        done = finish(launched(3, "train", "--resume", str(run)))
        assert done.returncode == 0, done.stderr
        assert compare(alone, run) < 1e-5
        fault.lost = len(records(alone)) - len(records(run))
        assert fault.lost == 0


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_two_processes_that_are_killed_are_continued_by_two_or_three(
    small_words: tuple[str, ...], alone: Path, tmp_path: Path, faults: Any, count: int
) -> None:
    run = tmp_path / "run"
    with faults.inject("both of two processes killed, resumed with 2 or 3") as fault:
        words = launched(2, "train", *small_words, *PRECISE, "--out", str(run))
        process = subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 300
        while not list((run / "checkpoints").glob("step-*")) and time.monotonic() < end:
            time.sleep(0.01)
        for victim in (*children(process.pid), process.pid):
            os.kill(victim, signal.SIGKILL)
        process.wait(60)
        assert not (run / "summary.json").exists()
        done = finish(launched(count, "train", "--resume", str(run)))
        assert done.returncode == 0, done.stderr
        assert compare(alone, run) < 1e-5
        fault.lost = len(records(alone)) - len(records(run))
        assert fault.lost == 0


@pytest.mark.slow
def test_what_one_process_refuses_all_refuse(small_words: tuple[str, ...], alone: Path) -> None:
    done = finish(launched(2, "train", *small_words, *PRECISE, "--out", str(alone)), 200)
    assert done.returncode != 0
    assert done.stderr.count("already contains a run") == 1
