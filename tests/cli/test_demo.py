"""`scob demo` as a user runs it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scob.cli.demo import _free_folder
from scob.training.checkpoint import latest_checkpoint
from support.struck import ENVIRONMENT, children


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("demo") == ["--seeds", "--out"]


def test_a_folder_with_a_demo_is_not_used_again(tmp_path: Path) -> None:
    assert _free_folder(tmp_path / "demo") == tmp_path / "demo"
    (tmp_path / "demo" / "runs").mkdir(parents=True)
    (tmp_path / "demo-2" / "runs").mkdir(parents=True)
    assert _free_folder(tmp_path / "demo") == tmp_path / "demo-3"


def test_a_wrong_setting_is_refused_before_anything_is_drawn(
    scob: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, out, err = scob("demo", "train.epoch=3", "--out", tmp_path / "demo")
    assert (code, out) == (2, "")
    assert "train.epochs" in err and "Traceback" not in err
    assert not (tmp_path / "demo").exists()


def living(processes: list[int]) -> list[int]:
    """Those that have not ended."""
    states = {pid: Path(f"/proc/{pid}/stat") for pid in processes}
    return [
        pid for pid, stat in states.items() if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    ]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the worker processes in /proc")
def test_ctrl_c_ends_all_rows_within_seconds_and_keeps_what_they_saved(tmp_path: Path) -> None:
    words = ("data.source=scenes:64x64", "data.size=64", "model.width=16", "model.feedforward=32",
             "model.projection=16", "train.device=cpu", "train.epochs=4000", "train.log_every=1")  # fmt: skip
    command = [sys.executable, "-m", "scob", "demo", *words, "--out", str(tmp_path / "demo")]
    process = subprocess.Popen(
        command, env={**ENVIRONMENT, "OMP_NUM_THREADS": "2"}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    rows = [tmp_path / "demo" / "runs" / name for name in ("pairs-0", "scob-0")]
    end = time.monotonic() + 240
    while not all((row / "metrics.jsonl").exists() for row in rows) and time.monotonic() < end:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    workers = children(process.pid)
    asked = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said and f"Stopped. The rows that have ended are kept in {tmp_path}" in said
    assert len(workers) >= 2
    while living(workers):
        assert time.monotonic() < asked + 30
        time.sleep(0.05)
    assert all(latest_checkpoint(row / "checkpoints") is not None for row in rows)
