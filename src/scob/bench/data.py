"""How fast images reach the network: with plain Pillow, decoding workers, the packed cache, and the views on top."""

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from scob.data.feed import Feed, FeedOptions, unwrap
from scob.data.images import ImageFiles
from scob.data.readers import open_split, splits_of
from scob.data.split import Split
from scob.data.views import Views
from scob.errors import UserError
from scob.studies.timing import seconds_of


@dataclass(frozen=True)
class FeedBench:
    """How many images to feed, and how. Each rate is the best of `repeats` passes over the same `count` images."""

    size: int = 448
    count: int = 500
    batch: int = 8
    workers: int | None = None  # None: one per core
    cache: Path | None = None  # None: a temporary folder
    device: str = "cpu"
    repeats: int = 3


def bench_data(source: str, split: str | None = None, bench: FeedBench | None = None) -> dict[str, Any]:
    """Images per second of each way to feed the network.

    Plain Pillow (open, convert, bilinear resize; nothing else) runs on one core and on as many threads as there are
    workers; `cached over Pillow` divides by the faster of the two. The cache is built before it is timed.
    """
    bench = bench or FeedBench()
    images = open_split(source, splits_of(source)[0] if split is None else split)
    images = images.select(np.arange(min(bench.count, len(images)), dtype=np.int64))
    paths = image_paths(images, source)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = cores if bench.workers is None else bench.workers
    speeds = pillow_speeds(paths, bench, workers)
    fastest = max(speeds.values())
    fed, build_seconds = feed_speeds(images, bench, workers)
    speeds |= fed
    return {
        "rows": [
            {"what": name, "images per second": round(speed, 1), "over Pillow": round(speed / fastest, 2)}
            for name, speed in speeds.items()
        ],
        "cached over Pillow": round(speeds["cached"] / fastest, 2),
        "cache built in seconds": round(build_seconds, 2),
        "settings": {
            "source": Path(source).name,
            "images": len(paths),
            "size": bench.size,
            "batch": bench.batch,
            "cores": cores,
            "workers": workers,
            "device": str(torch.device(bench.device)),
        },
    }


def image_paths(images: Split, source: str) -> list[str]:
    """The files of the split's images; a UserError if they are not files."""
    base, rows = unwrap(images.images)
    if not isinstance(base, ImageFiles):
        raise UserError(f"{source} is drawn, not decoded, so there is nothing to measure; give a folder of images")
    return [base.paths[int(row)] for row in (rows if rows is not None else range(len(base)))]


def pillow_speeds(paths: list[str], bench: FeedBench, workers: int) -> dict[str, float]:
    """Plain Pillow on one core and on as many threads as there are workers."""
    device, count = torch.device(bench.device), len(paths)
    one_core = best_rate(lambda: (plain(path, bench.size) for path in paths), count, device, bench.repeats)
    with ThreadPoolExecutor(workers) as pool:
        threads = best_rate(lambda: pool.map(lambda path: plain(path, bench.size), paths), count, device, bench.repeats)
    return {"Pillow, one core": one_core, f"Pillow, {workers} threads": threads}


def feed_speeds(images: Split, bench: FeedBench, workers: int) -> tuple[dict[str, float], float]:
    """Decoded by workers, from the cache, and from the cache through the views; and the seconds the cache took."""
    device, size, count = torch.device(bench.device), bench.size, len(images)
    batches = [np.arange(i, min(i + bench.batch, count), dtype=np.int64) for i in range(0, count, bench.batch)]
    views = Views(size)
    keys = torch.from_numpy(images.labels.keys).to(device)

    def rate(run: Callable[[], Iterable[object]]) -> float:
        return best_rate(run, count, device, bench.repeats)

    def viewed(feed: Feed, view: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Tensor]:
        for rows, pixels in zip(batches, feed.iterate(batches), strict=True):
            yield view(pixels, keys[int(rows[0]) : int(rows[-1]) + 1])

    def weak(pixels: Tensor, key: Tensor) -> Tensor:
        return views.weak(pixels, views.flips(key, "weak"))

    def strong(pixels: Tensor, key: Tensor) -> Tensor:
        return views.strong(pixels, views.flips(key, "weak"), key)

    speeds: dict[str, float] = {}
    with Feed(images, size, device, FeedOptions(workers)) as feed:
        feed.fetch(batches[0])  # workers start once per run, not once per epoch
        speeds[f"decoded, {workers} workers"] = rate(lambda: feed.iterate(batches))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        feed = Feed(images, size, device, FeedOptions(workers, cache=bench.cache or Path(folder)))
        build_seconds = time.perf_counter() - began
        with feed:
            speeds["cached"] = rate(lambda: feed.iterate(batches))
            speeds["fed: cached, weak view"] = rate(lambda: viewed(feed, weak))
            speeds["fed: cached, strong view"] = rate(lambda: viewed(feed, strong))
    return speeds, build_seconds


def best_rate(run: Callable[[], Iterable[object]], count: int, device: torch.device, repeats: int) -> float:
    """Images per second of the fastest pass; a pass exhausts what `run` returns, `count` images."""
    return count / min(seconds_of(lambda: deque(run(), maxlen=0), device) for _ in range(repeats))


def plain(path: str, size: int) -> NDArray[np.uint8]:
    """What anybody would write with Pillow."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
