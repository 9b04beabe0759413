"""SIGTERM to every process of a run at once, as `timeout` and SLURM send it: the step is saved, and the run resumes."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scob.training.checkpoint import latest_checkpoint
from support.struck import ENVIRONMENT, SCOB, bytes_lost, children, records, scob

SLOW_TO_DECODE = 1000  # pixels: a step waits for its images most of the time


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, chance = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(16):
        path = folder / ("bird", "fish")[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        shape = (SLOW_TO_DECODE, SLOW_TO_DECODE, 3)
        Image.fromarray(chance.integers(0, 256, shape, dtype=np.uint8)).save(path, compress_level=1)
    return folder


def steps(run: Path) -> int:
    """How many steps the log has."""
    return sum(line["kind"] == "step" for line in records(run)) if (run / "metrics.jsonl").exists() else 0


@pytest.fixture(scope="module")
def words(small_words: tuple[str, ...], photos: Path) -> list[str]:
    return ["train", *small_words, f"data.source={photos}", "data.workers=2", "train.epochs=6", "--out"]


@pytest.fixture(scope="module")
def undisturbed(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    done = scob(*words, str(run))
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.slow
@pytest.mark.parametrize("moment", [2, 4])
def test_sigterm_to_the_whole_group_saves_the_step(
    words: list[str], undisturbed: Path, tmp_path: Path, faults: Any, moment: int
) -> None:
    run = tmp_path / "run"
    with faults.inject("SIGTERM to the whole process group") as fault:
        command = [str(SCOB), *words, str(run)]
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, start_new_session=True)
        end = time.monotonic() + 240
        while steps(run) < moment:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        assert len(children(process.pid)) >= 2  # the processes that decode
        os.killpg(process.pid, signal.SIGTERM)
        printed = process.communicate(timeout=120)[1]
        assert process.returncode == 143, printed
        assert f"scob train --resume {run}" in printed.replace("\n", "")
        kept = latest_checkpoint(run / "checkpoints")
        assert kept is not None
        assert kept.progress.step == steps(run) >= moment
        resumed = scob("train", "--resume", str(run))
        assert resumed.returncode == 0, resumed.stderr
        fault.lost = bytes_lost(undisturbed, run)
        assert fault.lost == 0
