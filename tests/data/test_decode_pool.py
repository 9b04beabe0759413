"""The decoding processes: blocks and tickets, failures, dead workers, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch

from scob.data.decode_pool import DecodePool
from scob.data.feed import Feed, FeedOptions
from scob.data.images import ImageFiles
from scob.data.split import Split
from scob.errors import UserError
from scob.labels import Labels
from support.feeding import batches

Decoded = Callable[[Iterable[int]], torch.Tensor]
CPU = torch.device("cpu")
SIZE = 16


def test_decoding_imports_no_torch() -> None:
    code = "import sys, scob.data.decode_pool; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_block_is_filled_and_free_again_after_its_release(split: Split, decoded: Decoded) -> None:
    files = split.images
    assert isinstance(files, ImageFiles)
    pool = DecodePool(workers=1, size=SIZE, capacity=4, blocks=1)
    try:
        tasks = [(path, path) for path in files.paths[:3]]
        ticket = pool.submit([*tasks, ("gone.png", "the lost one")])
        assert ticket is not None
        assert pool.submit(tasks) is None  # the only block is in use
        pixels, failures = pool.collect(ticket)
        torch.testing.assert_close(torch.from_numpy(pixels[:3].copy()), decoded(range(3)))
        assert not pixels[3].any()
        assert [slot for slot, _ in failures] == [3] and failures[0][1].startswith("the lost one: ")
        pool.release(ticket)
        assert pool.submit(tasks) is not None
    finally:
        pool.close()
    assert not pool.alive


def test_many_failures_do_not_jam_the_pipes(tmp_path: Path) -> None:
    missing = tuple(f"{tmp_path}/{'deep/' * 100}{i}.png" for i in range(600))
    split = Split("x", Labels(("a",), missing, np.zeros((600, 1), np.int8)), ImageFiles(missing))
    with Feed(split, 4, CPU, FeedOptions(workers=1, skip_bad=True)) as feed:
        assert sum(len(batch) for batch in feed.iterate(batches(600, 64))) == 600
        assert len(feed.bad) == 600


def test_a_worker_that_dies_is_an_error_not_a_hang(worked: Feed, decoded: Decoded) -> None:
    worked.fetch(np.arange(4))
    assert worked._pool is not None
    victim = worked._pool._processes[1].pid
    assert victim is not None
    coming = worked.iterate(batches())
    next(coming)
    os.kill(victim, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(UserError, match=r"process that decodes images died \(exit code -9\)"):
        for _ in range(50):
            list(worked.iterate(batches()))
    assert time.monotonic() - started < 20
    torch.testing.assert_close(worked.fetch(np.arange(4)), decoded(np.arange(4)))  # new workers


BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@BOTH
def test_a_signal_to_all_does_not_end_the_workers(worked: Feed, decoded: Decoded, number: int) -> None:
    """Ctrl+C and `timeout` send it to every process, and training finishes its step before it saves and ends."""
    chosen = batches(len(worked), 4)
    steps = worked.iterate(chosen)
    next(steps)
    assert worked._pool is not None
    for process in worked._pool._processes:
        assert process.pid is not None
        os.kill(process.pid, number)
    time.sleep(0.3)
    for rows, images in zip(chosen[1:], steps, strict=True):
        torch.testing.assert_close(images, decoded(rows.tolist()))


@BOTH
def test_a_signal_does_not_end_a_worker_that_is_starting(
    monkeypatch: pytest.MonkeyPatch, split: Split, number: int
) -> None:
    files = split.images
    assert isinstance(files, ImageFiles)
    start = BaseProcess.start

    def started(process: BaseProcess) -> None:
        start(process)
        assert process.pid is not None
        os.kill(process.pid, number)

    monkeypatch.setattr(BaseProcess, "start", started)
    pool = DecodePool(workers=1, size=SIZE, capacity=4, blocks=1)
    try:
        ticket = pool.submit([(files.paths[0], files.paths[0])])
        assert ticket is not None and pool.collect(ticket)[0].any()
    finally:
        pool.close()


def test_a_script_that_never_closes_its_pool_ends_nevertheless() -> None:
    """At its end, Python sends workers SIGTERM and waits for them; they leave that signal to their parent."""
    script = "from scob.data.decode_pool import DecodePool\npool = DecodePool(workers=2, size=8, capacity=4, blocks=1)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@BOTH
def test_workers_end_with_a_parent_that_is_killed(number: int) -> None:
    script = (
        "import os, signal, sys\nfrom scob.data.decode_pool import DecodePool\n"
        "pool = DecodePool(workers=2, size=8, capacity=4, blocks=1)\n"
        f"for process in pool._processes:\n    os.kill(process.pid, {int(number)})\n    print(process.pid)\n"
        "sys.stdout.flush()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    workers = [Path("/proc", pid) for pid in done.stdout.split()]
    assert len(workers) == 2
    end = time.monotonic() + 20
    while any(map(running, workers)):
        assert time.monotonic() < end
        time.sleep(0.05)


def running(process: Path) -> bool:
    """Whether a process, a folder of /proc, is neither gone nor a zombie that nobody has waited for."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_stays_in_shared_memory(worked: Feed) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no /dev/shm here")
    before = set(shared.glob("scob-decode-*"))  # of processes that were killed
    worked.fetch(np.arange(4))
    assert set(shared.glob("scob-decode-*")) <= before


def test_workers_do_not_run_the_callers_script(split: Split, tmp_path: Path) -> None:
    """Most scripts have no `if __name__` guard."""
    images = split.images.paths  # type: ignore[attr-defined]
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, torch\n"
        "from scob.data.feed import Feed, FeedOptions\nfrom scob.data.images import ImageFiles\n"
        "from scob.data.split import Split\nfrom scob.labels import Labels\n"
        f"paths = {tuple(images[:4])!r}\n"
        "split = Split('x', Labels(('a',), paths, np.zeros((4, 1), np.int8)), ImageFiles(paths))\n"
        "feed = Feed(split, 8, torch.device('cpu'), FeedOptions(workers=1))\nprint(feed.fetch(np.arange(4)).shape)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "torch.Size([4, 3, 8, 8])\n", done.stderr
