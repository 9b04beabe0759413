"""The benchmark of feeding: every way is measured, and drawings are refused."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.bench.data import bench_data
from scob.errors import UserError


def test_bench_measures_each_way(tmp_path: Path) -> None:
    for number in range(12):
        path = tmp_path / "images" / "cat" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((18, 24, 3), 20 * number, np.uint8)).save(path)
    found = bench_data(str(tmp_path / "images"), 32, count=10, workers=1, cache=tmp_path / "cache", repeats=1)
    assert found["settings"]["images"] == 10
    assert len(found["rows"]) == 6
    assert all(row["images per second"] > 0 for row in found["rows"])
    assert list((tmp_path / "cache").glob("*.u8"))


def test_bench_has_nothing_to_decode_in_drawings() -> None:
    with pytest.raises(UserError, match="drawn, not decoded"):
        bench_data("scenes:4x32", 32)
