"""How fast images reach the network: plain Pillow, decoding workers, the packed cache, and the views on top of it."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from scob.data.views import Views
from scob.errors import UserError


def bench_data(
    source: str,
    size: int = 448,
    split: str | None = None,
    count: int = 500,
    batch: int = 8,
    workers: int | None = None,
    cache: Path | None = None,
    device: str = "cpu",
    repeats: int = 3,
) -> dict[str, Any]:
    """Images a second by each way of feeding, the best of `repeats` passes over the same `count` images.

    Plain Pillow (open, convert, bilinear resize; nothing else) runs on one core and on as many threads as the workers
    have cores; `cached over Pillow` divides by the faster of the two. The cache is built before it is timed.
    """
    found = open_split(source, splits_of(source)[0] if split is None else split)
    found = found.select(np.arange(min(count, len(found)), dtype=np.int64))
    base, rows = unwrap(found.images)
    if not isinstance(base, ImageFiles):
        raise UserError(f"{source} is drawn, not decoded: there is nothing to measure; give a folder of images")
    paths = [base.paths[int(row)] for row in (rows if rows is not None else range(len(base)))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    hands = cores if workers is None else workers
    place = torch.device(device)
    batches = [np.arange(i, min(i + batch, len(paths)), dtype=np.int64) for i in range(0, len(paths), batch)]
    views = Views(size)
    keys = torch.from_numpy(found.labels.keys).to(place)

    def rate(run: Callable[[], Iterable[object]]) -> float:
        best = float("inf")
        for _ in range(repeats):
            started = time.perf_counter()
            for _ in run():
                pass
            if place.type == "cuda":
                torch.cuda.synchronize(place)
            best = min(best, time.perf_counter() - started)
        return len(paths) / best

    def viewed(feed: Feed, look: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Tensor]:
        for chosen, images in zip(batches, feed.iterate(batches), strict=True):
            yield look(images, keys[int(chosen[0]) : int(chosen[-1]) + 1])

    def weak(images: Tensor, key: Tensor) -> Tensor:
        return views.weak(images, views.flips(key, "weak"))

    def strong(images: Tensor, key: Tensor) -> Tensor:
        return views.strong(images, views.flips(key, "weak"), key)

    speeds: dict[str, float] = {}
    speeds["Pillow, one core"] = rate(lambda: (plain(path, size) for path in paths))
    with ThreadPoolExecutor(hands) as pool:
        speeds[f"Pillow, {hands} threads"] = rate(lambda: pool.map(lambda path: plain(path, size), paths))
    with Feed(found, size, place, FeedOptions(workers=hands)) as feed:
        feed.fetch(batches[0])  # the workers start once a run, not once an epoch
        speeds[f"decoded, {hands} workers"] = rate(lambda: feed.iterate(batches))
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        feed = Feed(found, size, place, FeedOptions(workers=hands, cache=cache or Path(folder)))
        built = time.perf_counter() - started
        with feed:
            speeds["cached"] = rate(lambda: feed.iterate(batches))
            speeds["fed: cached, weak view"] = rate(lambda: viewed(feed, weak))
            speeds["fed: cached, strong view"] = rate(lambda: viewed(feed, strong))
    fastest = max(speed for name, speed in speeds.items() if name.startswith("Pillow"))
    return {
        "rows": [
            {"what": name, "images per second": round(speed, 1), "over Pillow": round(speed / fastest, 2)}
            for name, speed in speeds.items()
        ],
        "cached over Pillow": round(speeds["cached"] / fastest, 2),
        "cache built in seconds": round(built, 2),
        "settings": {
            "source": Path(source).name,
            "images": len(paths),
            "size": size,
            "batch": batch,
            "cores": cores,
            "workers": hands,
            "device": str(place),
        },
    }


def plain(path: str, size: int) -> NDArray[np.uint8]:
    """What anybody would write with Pillow."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
