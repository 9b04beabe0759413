"""The packed cache: built once, rebuilt when a file changes or it is damaged, never half written."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from scob.data.feed import Feed, FeedOptions
from scob.data.images import ImageFiles
from scob.data.packed_cache import fingerprint, open_packed
from scob.data.progress import Progress
from scob.data.split import Split
from scob.errors import UserError

Decoded = Callable[[Iterable[int]], torch.Tensor]
Painter = Callable[..., Path]
CPU = torch.device("cpu")
SIZE = 16


def cached(split: Split, cache: Path, size: int = SIZE, progress: Progress | None = None) -> Feed:
    return Feed(split, size, CPU, FeedOptions(cache=cache), progress)


def test_the_pixels_are_those_of_the_decoder_and_failures_are_remembered(tmp_path: Path) -> None:
    files = ImageFiles(("a.png", "b.png", "c.png"))

    def decoder(batches: Iterator[np.ndarray]) -> Iterator[tuple[np.ndarray, list[tuple[int, str]]]]:
        for rows in batches:
            yield np.stack([np.full((3, 4, 4), row, np.uint8) for row in rows]), [(1, "b.png is broken")]

    packed = open_packed(files, 4, tmp_path, decoder)
    assert packed.pixels[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert packed.bad == {1: "b.png is broken"}

    def unused(batches: Iterator[np.ndarray]) -> Iterator[tuple[np.ndarray, list[tuple[int, str]]]]:
        raise AssertionError("the cache was there already")

    assert open_packed(files, 4, tmp_path, unused).bad == packed.bad


def test_the_fingerprint_depends_on_files_and_size(split: Split, paint: Painter) -> None:
    files = split.images
    assert isinstance(files, ImageFiles)
    before = fingerprint(files, SIZE)
    assert fingerprint(files, SIZE) == before
    assert fingerprint(files, SIZE + 1) != before
    Path(files.paths[3]).unlink()
    assert fingerprint(files, SIZE) != before


def test_the_cache_is_built_once_and_rebuilt_when_a_file_changes(
    split: Split, decoded: Decoded, tmp_path: Path, paint: Painter
) -> None:
    cache = tmp_path / "cache"
    calls: list[tuple[int, int]] = []

    def open_feed() -> Feed:
        return cached(split, cache, progress=lambda done, total: calls.append((done, total)))

    open_feed()
    assert calls[-1] == (40, 40)
    calls.clear()
    first = next(cache.glob("*.u8"))
    cached(split.select(np.arange(3)), cache, progress=lambda *call: calls.append(call))  # selections share it
    assert not calls
    paint(Path(split.images.paths[7]), seed=100)  # type: ignore[attr-defined]
    torch.testing.assert_close(open_feed().fetch(np.array([7])), decoded(np.array([7])))
    assert calls[-1] == (40, 40)
    assert not first.exists()
    assert len(list(cache.glob("*.u8"))) == 1
    cached(split, cache, 2 * SIZE)
    assert len(list(cache.glob("*.u8"))) == 2


@pytest.mark.parametrize("damage", ["shorter", "gone", "manifest", "nonsense"])
def test_a_damaged_cache_is_built_again(split: Split, decoded: Decoded, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    cached(split, cache)
    data, manifest = next(cache.glob("*.u8")), next(cache.glob("*.json"))
    if damage == "shorter":
        os.truncate(data, 100)
    elif damage == "gone":
        data.unlink()
    elif damage == "manifest":
        manifest.write_text("{")
    else:
        manifest.write_text(json.dumps(["format"]))
    torch.testing.assert_close(cached(split, cache).fetch(np.arange(40)), decoded(np.arange(40)))


def test_an_interrupted_build_leaves_nothing_half_written(split: Split, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(split, tmp_path / "cache", progress=stop)
    assert not list((tmp_path / "cache").glob("*.u8"))
    assert not list((tmp_path / "cache").glob(".*.part"))
    assert not list((tmp_path / "cache").glob("*.json"))


def test_two_runs_build_one_cache(split: Split, tmp_path: Path) -> None:
    built: list[str] = []

    def run(name: str) -> None:
        cached(split, tmp_path / "cache", progress=lambda *_: built.append(name))

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(built)) == 1


def test_a_cache_that_cannot_be_written(split: Split, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot create the cache folder"):
        cached(split, tmp_path / "file" / "cache")
