"""kill -9 at twenty random moments: the run ends in the same bits."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.struck import bytes_lost, forked

KILLS = 20
LONGEST = 120.0


def words(small_words: tuple[str, ...]) -> list[str]:
    return [
        *small_words, "data.source=scenes:96x64", "data.evaluate=val", "train.epochs=5", "train.holdout=0.2",
        "train.checkpoint_steps=3", "train.log_every=2",
    ]  # fmt: skip


def ended(pid: int) -> int | None:
    """The exit code of a process that has ended."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def run_for(pid: int, seconds: float) -> int | None:
    """Let a process run; return its exit code if it ended by itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        code = ended(pid)
        if code is not None:
            return code
        time.sleep(0.005)
    return None


@pytest.mark.slow
def test_a_run_killed_twenty_times_ends_in_the_same_bits(
    small_words: tuple[str, ...], tmp_path: Path, faults: Any
) -> None:
    import scob.training.train  # noqa: F401 (forked processes need not load it again)

    log, chance = tmp_path / "log", random.Random(9)
    whole = tmp_path / "whole"
    began = time.monotonic()
    assert run_for(forked(["train", *words(small_words), "--out", str(whole)], log), LONGEST) == 0, log.read_text()
    length = time.monotonic() - began

    kills, number = 0, 0
    while kills < KILLS:
        number += 1
        run = tmp_path / f"run{number}"
        finished, struck_here = False, 0
        while not finished:
            again = (run / "config.yaml").exists()
            command = ["train", "--resume", str(run)] if again else ["train", *words(small_words), "--out", str(run)]
            pid = forked(command, log)
            # After the last kill, or after seven kills of the same run, the run may finish.
            spared = kills == KILLS or struck_here == 7
            code = run_for(pid, LONGEST if spared else chance.uniform(0.02, 0.6) * length)
            if code is None:
                assert not spared, log.read_text()
                with faults.inject("kill -9 at a random moment"):
                    os.kill(pid, signal.SIGKILL)
                    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
                kills, struck_here = kills + 1, struck_here + 1
            else:
                assert code == 0, log.read_text()
                finished = True
        with faults.inject("runs killed many times until they finish") as fault:
            fault.lost = bytes_lost(whole, run)
            assert fault.lost == 0
    assert kills == KILLS
