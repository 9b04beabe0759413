"""Decode every image of a split to find the broken ones."""

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scob.data.decode_pool import DecodePool, Ticket
from scob.data.images import ImageFiles
from scob.data.progress import Progress
from scob.data.split import Split
from scob.errors import UserError

# Small, so that a large JPEG is decoded at an eighth of its size; every byte is still read, so damage is found.
CHECK_SIZE = 32
ENOUGH = 500  # with fewer images, starting processes takes longer than it saves
BLOCK_IMAGES, BLOCKS = 64, 4


def broken_images(split: Split, workers: int | None = None, progress: Progress | None = None) -> dict[int, str]:
    """The images that cannot be decoded: row -> what is wrong. `workers` None: one per core."""
    from scob.data.feed import unwrap

    images, selected = unwrap(split.images)
    rows = np.arange(len(split), dtype=np.int64) if selected is None else selected
    workers = (os.cpu_count() or 1) if workers is None else workers
    broken: dict[int, str] = {}
    if isinstance(images, ImageFiles) and workers > 1 and len(rows) >= ENOUGH:
        checked = _in_workers(images, rows, workers)
    else:
        checked = _here(split)
    for done, (row, why) in enumerate(checked, 1):
        if why:
            broken[row] = why
        if progress is not None:
            progress(done, len(rows))
    return broken


def without_broken(split: Split, workers: int | None = None, progress: Progress | None = None) -> Split:
    """The split without its broken images, which are added to `skipped`."""
    broken = broken_images(split, workers, progress)
    if not broken:
        return split
    rows = np.array([row for row in range(len(split)) if row not in broken], dtype=np.int64)
    if not len(rows):
        raise UserError(f"no image of the split {split.name!r} can be decoded; the first: {broken[0]}")
    return replace(split.select(rows), skipped=(*split.skipped, *broken.values()))


def _here(split: Split) -> Iterator[tuple[int, str]]:
    """(row, what is wrong or '') of every image, decoded in this process."""
    for row in range(len(split)):
        try:
            split.images.load(row, CHECK_SIZE)
            yield row, ""
        except UserError as error:
            yield row, str(error)


def _in_workers(images: ImageFiles, rows: NDArray[np.int64], workers: int) -> Iterator[tuple[int, str]]:
    """`_here`, in decoding processes."""
    pool = DecodePool(workers, CHECK_SIZE, BLOCK_IMAGES, BLOCKS)
    try:
        under_way: list[tuple[int, Ticket]] = []
        for start in range(0, len(rows), BLOCK_IMAGES):
            if len(under_way) == BLOCKS:
                yield from _collected(pool, *under_way.pop(0))
            tasks = [(images.paths[row], images.where(row)) for row in rows[start : start + BLOCK_IMAGES].tolist()]
            ticket = pool.submit(tasks)
            assert ticket is not None  # there is a block for every ticket
            under_way.append((start, ticket))
        for start, ticket in under_way:
            yield from _collected(pool, start, ticket)
    finally:
        pool.close()


def _collected(pool: DecodePool, start: int, ticket: Ticket) -> Iterator[tuple[int, str]]:
    _, failures = pool.collect(ticket)
    pool.release(ticket)
    why = dict(failures)
    for position in range(ticket.count):
        yield start + position, why.get(position, "")
