"""Feeding: the same pixels from every source, bad images, selections of images."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from scob.data.feed import Feed, FeedOptions, unwrap
from scob.data.split import ArrayImages, Split
from scob.errors import UserError
from scob.labels import Labels
from support.feeding import batches

Decoded = Callable[[Iterable[int]], torch.Tensor]
CPU = torch.device("cpu")
SIZE = 16


@pytest.mark.parametrize("way", ["here", "workers", "cache", "cache and workers", "resident"])
def test_every_way_gives_the_same_pixels(split: Split, decoded: Decoded, tmp_path: Path, way: str) -> None:
    options = FeedOptions(
        workers=2 if "workers" in way else 0,
        cache=tmp_path / "cache" if "cache" in way else None,
        resident=way == "resident",
    )
    with Feed(split, SIZE, CPU, options) as feed:
        fed = list(feed.iterate(iter(batches())))
        assert [len(batch) for batch in fed] == [7, 7, 7, 7, 7, 5]
        assert fed[0].dtype == torch.uint8
        torch.testing.assert_close(torch.cat(fed), decoded(np.arange(40)))
        rows = np.array([3, 39, 3, 0])
        torch.testing.assert_close(feed.fetch(rows), decoded(rows))


def test_workers_take_large_batches_and_interleaved_calls(worked: Feed, decoded: Decoded) -> None:
    rows = np.tile(np.arange(40), 4)
    worked.fetch(np.arange(3))  # sets the block to 8 images, so that 160 are decoded in pieces
    torch.testing.assert_close(worked.fetch(rows), decoded(rows))
    first, second = worked.iterate(batches()), worked.iterate(batches())
    for batch in batches():
        torch.testing.assert_close(next(first), decoded(batch))
        torch.testing.assert_close(next(second), decoded(batch))
        torch.testing.assert_close(worked.fetch(batch[::-1]), decoded(batch[::-1]))
    abandoned = worked.iterate(batches())
    next(abandoned)
    abandoned.close()
    torch.testing.assert_close(worked.fetch(rows[:9]), decoded(rows[:9]))


def test_a_feed_abandoned_half_way_can_be_used_again(split: Split, decoded: Decoded) -> None:
    with Feed(split, SIZE, CPU) as feed:
        abandoned = feed.iterate(batches())
        next(abandoned)
        abandoned.close()
        torch.testing.assert_close(torch.cat(list(feed.iterate(batches()))), decoded(np.arange(40)))


def test_a_selection_of_a_selection(split: Split, decoded: Decoded, tmp_path: Path) -> None:
    selected = split.select(np.arange(39, -1, -1)).select(np.array([0, 5]))
    _, rows = unwrap(selected.images)
    assert rows is not None
    assert rows.tolist() == [39, 34]
    for cache in (None, tmp_path / "cache"):
        fed = Feed(selected, SIZE, CPU, FeedOptions(cache=cache)).fetch(np.array([1, 0]))
        torch.testing.assert_close(fed, decoded(np.array([34, 39])))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_image_is_one_sentence_or_black_and_listed(
    split: Split, decoded: Decoded, tmp_path: Path, workers: int
) -> None:
    Path(split.images.paths[4]).write_bytes(b"")  # type: ignore[attr-defined]
    for cache in (None, tmp_path / "cache"):
        strict, lenient = FeedOptions(workers, cache), FeedOptions(workers, cache, skip_bad=True)
        with Feed(split, SIZE, CPU, strict) as feed, pytest.raises(UserError, match=r"04\.png"):
            feed.fetch(np.arange(8))
        with Feed(split, SIZE, CPU, lenient) as feed:
            fed = feed.fetch(np.array([4, 5]))
            assert not fed[0].any()
            torch.testing.assert_close(fed[1:], decoded(np.array([5])))
            assert list(feed.bad) == [4]


def test_images_in_memory_need_no_files() -> None:
    array = np.arange(5 * 4 * 4 * 3, dtype=np.uint8).reshape(5, 4, 4, 3)
    split = Split("s", Labels(("a",), tuple("abcde"), np.zeros((5, 1), np.int8)), ArrayImages(array, "drawing"))
    feed = Feed(split, 4, CPU, FeedOptions(workers=2, cache=Path("never made")))
    torch.testing.assert_close(feed.fetch(np.array([4, 2])), torch.from_numpy(array[[4, 2]].transpose(0, 3, 1, 2)))
    assert not Path("never made").exists()


def test_rows_out_of_range(split: Split) -> None:
    with pytest.raises(IndexError):
        Feed(split, SIZE, CPU).fetch(np.array([40]))


@pytest.mark.gpu
def test_cuda_feeds_the_same_pixels(split: Split, decoded: Decoded, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    for options in (
        FeedOptions(),
        FeedOptions(workers=2),
        FeedOptions(cache=tmp_path / "cache"),
        FeedOptions(resident=True),
    ):
        with Feed(split, SIZE, torch.device("cuda"), options) as feed:
            fed = torch.cat(list(feed.iterate(batches())))
            assert fed.is_cuda
            torch.testing.assert_close(fed.cpu(), decoded(np.arange(40)))
