"""A reproduction that is killed outright and started again: nothing finished is repeated, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCOB = Path(sys.executable).with_name("scob")
NAME = "table-optimisation"


@pytest.mark.slow
def test_killed_half_way_it_finishes_and_gives_what_an_undisturbed_one_gives(small_words, tmp_path, faults):
    def command(out):
        return [
            str(SCOB), "reproduce", NAME, "--data", "scenes", "--out", str(out), *small_words,
            "data.source=scenes:96x64", "data.evaluate=val", "train.epochs=6", "train.checkpoint_steps=3",
            "train.holdout=0.1",
        ]  # fmt: skip

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    struck, calm = tmp_path / "struck", tmp_path / "calm"
    with faults.inject("reproduce killed"):
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command(struck), env=environment, stdout=log, stderr=log)
            try:
                wait_for(lambda: len(finished(struck)) >= 2 and interrupted(struck), process, tmp_path / "log")
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        done = finished(struck)
        assert 2 <= len(done) < 5 and not (struck / f"{NAME}.md").exists()
        before = {path: contents(path) for path in done}

        again = subprocess.run(command(struck), env=environment, capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
        assert again.stderr.count(", reused") == len(done)
        assert {path: contents(path) for path in done} == before
        assert len(finished(struck)) == 5

        undisturbed = subprocess.run(command(calm), env=environment, capture_output=True, text=True)
        assert undisturbed.returncode == 0, undisturbed.stderr
        assert json.loads((struck / f"{NAME}.json").read_text()) == json.loads((calm / f"{NAME}.json").read_text())


def finished(out):
    return sorted((out / "runs").glob("*/summary.json"))


def interrupted(out):
    """Whether a run is in progress that has a checkpoint to continue from."""
    runs = [path for path in (out / "runs").glob("*") if not (path / "summary.json").exists()]
    return any(list((path / "checkpoints").glob("*")) for path in runs)


def contents(summary):
    """Every file of a run, and when it was written."""
    return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in summary.parent.rglob("*") if p.is_file()}


def wait_for(reached, process, log, seconds=500):
    end = time.monotonic() + seconds
    while not reached():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.01)
