"""Feeding: the same pixels from every path, dead workers, bad images, and the packed cache's life."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scob.data.check import broken_images, without_broken
from scob.data.feed import Feed, unwrap
from scob.data.images import ImageFiles
from scob.data.split import ArrayImages, Split
from scob.errors import UserError
from scob.labels import Labels

Painter = Callable[..., Path]
CPU = torch.device("cpu")
SIZE = 16


@pytest.fixture
def split(tmp_path: Path, paint: Painter) -> Split:
    paths = [str(paint(tmp_path / "images" / f"{i:02}.png", seed=i)) for i in range(40)]
    values = np.ones((40, 1), np.int8)
    return Split("train", Labels(("a",), tuple(f"{i:02}" for i in range(40)), values), ImageFiles(tuple(paths)))


@pytest.fixture
def worked(split: Split) -> Iterator[Feed]:
    with Feed(split, SIZE, CPU, workers=2) as feed:
        yield feed


def expected(split: Split, rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack([split.images.load(int(r), SIZE).transpose(2, 0, 1) for r in rows]))


def batches(count: int = 40, size: int = 7) -> list[np.ndarray]:
    return [np.arange(i, min(i + size, count)) for i in range(0, count, size)]


@pytest.mark.parametrize("way", ["here", "workers", "cache", "cache and workers", "resident"])
def test_every_way_gives_the_same_pixels(split: Split, tmp_path: Path, way: str) -> None:
    feed = Feed(
        split,
        SIZE,
        CPU,
        workers=2 if "workers" in way else 0,
        cache=tmp_path / "cache" if "cache" in way else None,
        resident=way == "resident",
    )
    with feed:
        found = list(feed.iterate(iter(batches())))
        assert [len(batch) for batch in found] == [7, 7, 7, 7, 7, 5]
        assert found[0].dtype == torch.uint8
        torch.testing.assert_close(torch.cat(found), expected(split, np.arange(40)))
        rows = np.array([3, 39, 3, 0])
        torch.testing.assert_close(feed.fetch(rows), expected(split, rows))


def test_workers_take_large_batches_and_interleaved_calls(split: Split, worked: Feed) -> None:
    rows = np.tile(np.arange(40), 4)
    worked.fetch(np.arange(3))  # sets the block to 8 images, so that 160 travel in pieces
    torch.testing.assert_close(worked.fetch(rows), expected(split, rows))
    first, second = worked.iterate(batches()), worked.iterate(batches())
    for batch in batches():
        torch.testing.assert_close(next(first), expected(split, batch))
        torch.testing.assert_close(next(second), expected(split, batch))
        torch.testing.assert_close(worked.fetch(batch[::-1]), expected(split, batch[::-1]))
    abandoned = worked.iterate(batches())
    next(abandoned)
    abandoned.close()
    torch.testing.assert_close(worked.fetch(rows[:9]), expected(split, rows[:9]))


def test_many_failures_do_not_jam_the_pipes(tmp_path: Path) -> None:
    missing = tuple(f"{tmp_path}/{'deep/' * 100}{i}.png" for i in range(600))
    split = Split("x", Labels(("a",), missing, np.zeros((600, 1), np.int8)), ImageFiles(missing))
    with Feed(split, 4, CPU, workers=1, skip_bad=True) as feed:
        assert sum(len(batch) for batch in feed.iterate(batches(600, 64))) == 600
        assert len(feed.bad) == 600


def test_a_selection_of_a_selection(split: Split, tmp_path: Path) -> None:
    chosen = split.select(np.arange(39, -1, -1)).select(np.array([0, 5]))
    _, rows = unwrap(chosen.images)
    assert rows is not None
    assert rows.tolist() == [39, 34]
    for cache in (None, tmp_path / "cache"):
        found = Feed(chosen, SIZE, CPU, cache=cache).fetch(np.array([1, 0]))
        torch.testing.assert_close(found, expected(split, np.array([34, 39])))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_image_is_one_sentence_or_black_and_listed(split: Split, tmp_path: Path, workers: int) -> None:
    Path(split.images.paths[4]).write_bytes(b"")  # type: ignore[attr-defined]
    for cache in (None, tmp_path / "cache"):
        with Feed(split, SIZE, CPU, workers=workers, cache=cache) as feed, pytest.raises(UserError, match=r"04\.png"):
            feed.fetch(np.arange(8))
        with Feed(split, SIZE, CPU, workers=workers, cache=cache, skip_bad=True) as feed:
            found = feed.fetch(np.array([4, 5]))
            assert not found[0].any()
            torch.testing.assert_close(found[1:], expected(split, np.array([5])))
            assert list(feed.bad) == [4]


def test_a_worker_that_dies_is_an_error_not_a_hang(split: Split, worked: Feed) -> None:
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
    torch.testing.assert_close(worked.fetch(np.arange(4)), expected(split, np.arange(4)))  # new workers


def test_nothing_stays_in_shared_memory(worked: Feed) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no /dev/shm here")
    worked.fetch(np.arange(4))
    assert not list(shared.glob("scob-decode-*"))


def test_workers_do_not_run_the_callers_script(split: Split, tmp_path: Path) -> None:
    """A script without the `if __name__` guard is what most people write."""
    images = split.images.paths  # type: ignore[attr-defined]
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, torch\n"
        "from scob.data.feed import Feed\nfrom scob.data.images import ImageFiles\n"
        "from scob.data.split import Split\nfrom scob.labels import Labels\n"
        f"paths = {tuple(images[:4])!r}\n"
        "split = Split('x', Labels(('a',), paths, np.zeros((4, 1), np.int8)), ImageFiles(paths))\n"
        "feed = Feed(split, 8, torch.device('cpu'), workers=1)\nprint(feed.fetch(np.arange(4)).shape)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "torch.Size([4, 3, 8, 8])\n", done.stderr


def test_images_in_memory_need_no_files() -> None:
    array = np.arange(5 * 4 * 4 * 3, dtype=np.uint8).reshape(5, 4, 4, 3)
    split = Split("s", Labels(("a",), tuple("abcde"), np.zeros((5, 1), np.int8)), ArrayImages(array, "drawing"))
    feed = Feed(split, 4, CPU, workers=2, cache=Path("never made"))
    torch.testing.assert_close(feed.fetch(np.array([4, 2])), torch.from_numpy(array[[4, 2]].transpose(0, 3, 1, 2)))
    assert not Path("never made").exists()


def test_rows_out_of_range(split: Split) -> None:
    with pytest.raises(IndexError):
        Feed(split, SIZE, CPU).fetch(np.array([40]))


def test_the_cache_is_built_once_and_rebuilt_when_a_file_changes(split: Split, tmp_path: Path, paint: Painter) -> None:
    cache = tmp_path / "cache"
    calls: list[tuple[int, int]] = []

    def open_feed() -> Feed:
        return Feed(split, SIZE, CPU, cache=cache, progress=lambda done, total: calls.append((done, total)))

    open_feed()
    assert calls[-1] == (40, 40)
    calls.clear()
    first = next(cache.glob("*.u8"))
    Feed(
        split.select(np.arange(3)), SIZE, CPU, cache=cache, progress=lambda *c: calls.append(c)
    )  # shared by selections
    assert not calls
    paint(Path(split.images.paths[7]), seed=100)  # type: ignore[attr-defined]
    torch.testing.assert_close(open_feed().fetch(np.array([7])), expected(split, np.array([7])))
    assert calls[-1] == (40, 40)
    assert not first.exists()
    assert len(list(cache.glob("*.u8"))) == 1
    Feed(split, 2 * SIZE, CPU, cache=cache)
    assert len(list(cache.glob("*.u8"))) == 2


@pytest.mark.parametrize("damage", ["shorter", "gone", "manifest", "nonsense"])
def test_a_damaged_cache_is_built_again(split: Split, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    Feed(split, SIZE, CPU, cache=cache)
    data, manifest = next(cache.glob("*.u8")), next(cache.glob("*.json"))
    if damage == "shorter":
        os.truncate(data, 100)
    elif damage == "gone":
        data.unlink()
    elif damage == "manifest":
        manifest.write_text("{")
    else:
        manifest.write_text(json.dumps(["format"]))
    found = Feed(split, SIZE, CPU, cache=cache).fetch(np.arange(40))
    torch.testing.assert_close(found, expected(split, np.arange(40)))


def test_an_interrupted_build_leaves_nothing_half_written(split: Split, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Feed(split, SIZE, CPU, cache=tmp_path / "cache", progress=stop)
    assert not list((tmp_path / "cache").glob("*.u8"))
    assert not list((tmp_path / "cache").glob(".*.part"))
    assert not list((tmp_path / "cache").glob("*.json"))


def test_two_runs_build_one_cache(split: Split, tmp_path: Path) -> None:
    built: list[str] = []

    def run(name: str) -> None:
        Feed(split, SIZE, CPU, cache=tmp_path / "cache", progress=lambda *_: built.append(name))

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(built)) == 1


def test_a_cache_that_cannot_be_written(split: Split, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot make the cache folder"):
        Feed(split, SIZE, CPU, cache=tmp_path / "file" / "cache")


@pytest.mark.parametrize("workers", [1, 2])
def test_broken_images_are_found_and_left_out(split: Split, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scob.data.check.ENOUGH", 10)
    Path(split.images.paths[4]).write_bytes(b"x")  # type: ignore[attr-defined]
    seen: list[int] = []
    found = broken_images(split, workers, lambda done, total: seen.append(done))
    assert list(found) == [4]
    assert seen == list(range(1, 41))
    rest = without_broken(replace(split, skipped=("row 9",)), workers)
    assert len(rest) == 39
    assert rest.labels.images[4] == "05"
    assert rest.skipped[0] == "row 9"
    assert "04.png" in rest.skipped[1]


def test_a_split_of_broken_images_only(split: Split) -> None:
    Path(split.images.paths[0]).write_bytes(b"x")  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="no image of the split 'train' can be decoded"):
        without_broken(split.select(np.array([0])), 1)


@pytest.mark.gpu
def test_cuda_feeds_the_same_pixels(split: Split, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    for options in ({}, {"workers": 2}, {"cache": tmp_path / "cache"}, {"resident": True}):
        with Feed(split, SIZE, torch.device("cuda"), **options) as feed:  # type: ignore[arg-type]
            found = torch.cat(list(feed.iterate(batches())))
            assert found.is_cuda
            torch.testing.assert_close(found.cpu(), expected(split, np.arange(40)))
