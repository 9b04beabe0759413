"""Decode every image of a split and say which are broken."""

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

# Small, so that a large JPEG is decoded at an eighth; every byte is still read, which finds the damage.
CHECK_SIZE = 32
ENOUGH = 500  # images that are worth starting processes for


def broken_images(split: Split, workers: int | None = None, progress: Progress | None = None) -> dict[int, str]:
    """What is wrong, by row, with each image that cannot be decoded; `workers`: as many as cores."""
    from scob.data.feed import unwrap

    images, chosen = unwrap(split.images)
    rows = np.arange(len(split), dtype=np.int64) if chosen is None else chosen
    count = (os.cpu_count() or 1) if workers is None else workers
    broken: dict[int, str] = {}
    if isinstance(images, ImageFiles) and count > 1 and len(rows) >= ENOUGH:
        found = _in_workers(images, rows, count)
    else:
        found = _here(split)
    for done, (row, why) in enumerate(found, 1):
        if why:
            broken[row] = why
        if progress is not None:
            progress(done, len(rows))
    return broken


def without_broken(split: Split, workers: int | None = None, progress: Progress | None = None) -> Split:
    """The split less its broken images, which are added to `skipped`."""
    broken = broken_images(split, workers, progress)
    if not broken:
        return split
    rows = np.array([row for row in range(len(split)) if row not in broken], dtype=np.int64)
    if not len(rows):
        raise UserError(f"no image of the split {split.name!r} can be decoded; the first: {broken[0]}")
    return replace(split.select(rows), skipped=(*split.skipped, *broken.values()))


def _here(split: Split) -> Iterator[tuple[int, str]]:
    for row in range(len(split)):
        try:
            split.images.load(row, CHECK_SIZE)
            yield row, ""
        except UserError as error:
            yield row, str(error)


def _in_workers(images: ImageFiles, rows: NDArray[np.int64], workers: int) -> Iterator[tuple[int, str]]:
    pool = DecodePool(workers, CHECK_SIZE, 64, 4)
    try:
        flying: list[tuple[int, Ticket]] = []
        for start in range(0, len(rows), 64):
            if len(flying) == 4:
                yield from _landed(pool, *flying.pop(0))
            tasks = [(images.paths[row], images.where(row)) for row in rows[start : start + 64].tolist()]
            ticket = pool.submit(tasks)
            assert ticket is not None  # four blocks, at most four tickets
            flying.append((start, ticket))
        for start, ticket in flying:
            yield from _landed(pool, start, ticket)
    finally:
        pool.close()


def _landed(pool: DecodePool, start: int, ticket: Ticket) -> Iterator[tuple[int, str]]:
    _, failures = pool.collect(ticket)
    pool.release(ticket)
    why = dict(failures)
    for position in range(ticket.count):
        yield start + position, why.get(position, "")
