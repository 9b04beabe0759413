"""Checking a split: which images cannot be decoded, and the split without them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scob.data.check import broken_images, without_broken
from scob.data.split import Split
from scob.errors import UserError


@pytest.mark.parametrize("workers", [1, 2])
def test_broken_images_are_found_and_left_out(split: Split, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scob.data.check.ENOUGH", 10)
    Path(split.images.paths[4]).write_bytes(b"x")  # type: ignore[attr-defined]
    calls: list[int] = []
    broken = broken_images(split, workers, lambda done, total: calls.append(done))
    assert list(broken) == [4]
    assert calls == list(range(1, 41))
    rest = without_broken(replace(split, skipped=("row 9",)), workers)
    assert len(rest) == 39
    assert rest.labels.images[4] == "05"
    assert rest.skipped[0] == "row 9"
    assert "04.png" in rest.skipped[1]


def test_a_split_of_good_images_stays_as_it_is(split: Split) -> None:
    assert without_broken(split, 1) is split


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_those_of_the_selection(split: Split, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scob.data.check.ENOUGH", 2)
    Path(split.images.paths[4]).write_bytes(b"x")  # type: ignore[attr-defined]
    assert list(broken_images(split.select(np.array([9, 4, 7])), workers)) == [1]


def test_a_split_of_broken_images_only(split: Split) -> None:
    Path(split.images.paths[0]).write_bytes(b"x")  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="no image of the split 'train' can be decoded"):
        without_broken(split.select(np.array([0])), 1)
