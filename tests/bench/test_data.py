"""Feeding images: every way is measured, and only files can be."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scob.bench.data import FeedBench, bench_data, best_rate, plain
from scob.errors import UserError


def draw(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def test_bench_measures_each_way(tmp_path: Path) -> None:
    for number in range(12):
        draw(tmp_path / "images" / "cat" / f"{number}.jpg", number)
    bench = FeedBench(32, count=10, workers=1, cache=tmp_path / "cache", repeats=1)
    result = bench_data(str(tmp_path / "images"), bench=bench)
    assert result["settings"]["images"] == 10
    assert len(result["rows"]) == 6
    assert all(row["images per second"] > 0 for row in result["rows"])
    assert list((tmp_path / "cache").glob("*.u8"))


def test_bench_has_nothing_to_decode_in_drawings() -> None:
    with pytest.raises(UserError, match="drawn, not decoded"):
        bench_data("scenes:4x32", bench=FeedBench(32))


def test_plain_pillow_gives_a_square(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", 0)
    assert plain(str(tmp_path / "a.png"), 16).shape == (16, 16, 3)


def test_a_rate_is_of_whole_passes() -> None:
    passes = []

    def run() -> Iterator[int]:
        yield from range(4)
        passes.append(4)

    assert best_rate(run, 4, torch.device("cpu"), repeats=3) > 0
    assert passes == [4, 4, 4]
