"""Feeding: rows of a split in, uint8 batches on the device out, prepared ahead of time."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.data.ahead import work_ahead
from scob.data.decode_pool import DecodePool, Failures, Ticket
from scob.data.images import ImageFiles
from scob.data.packed_cache import Packed, open_packed
from scob.data.progress import Progress
from scob.data.split import ChosenImages, Images, Split
from scob.errors import UserError

AHEAD = 4  # batches prepared before they are asked for
LARGEST_BLOCK = 64  # images per block of shared memory; larger batches are decoded in pieces

Rows = NDArray[np.int64]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class FeedOptions:
    """Where a feed takes its pixels from; every way gives the same pixels.

    They come from the device itself (`resident`), from the packed cache in the folder `cache`, from `workers`
    decoding processes, or from this process: the first of these that is set. An image that cannot be decoded raises
    a `UserError`; with `skip_bad` it is black, and `Feed.bad` lists its row.
    """

    workers: int = 0
    cache: Path | None = None
    resident: bool = False
    skip_bad: bool = False


class Feed:
    """Images of `split` at `size`, as (B, 3, size, size) uint8 tensors on `device`."""

    def __init__(
        self,
        split: Split,
        size: int,
        device: torch.device,
        options: FeedOptions = FeedOptions(),
        progress: Progress | None = None,
    ) -> None:
        self.size, self.device, self.options = size, torch.device(device), options
        self.bad: dict[int, str] = {}
        self._rows: Rows | None
        self._images, selected = unwrap(split.images)
        # The cache contains the underlying images, so that all selections of them share one file.
        self._rows, self._count = None, len(self._images)
        self._pool: DecodePool | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._packed: Packed | None = None
        self._resident: Tensor | None = None
        if options.cache is not None and isinstance(self._images, ImageFiles):
            self._packed = open_packed(self._images, size, Path(options.cache), self._decode_all, progress)
            self._close_pool()
        self._rows, self._count = selected, len(split)
        if options.resident:
            self._resident = self._keep(progress)
            self._close_pool()

    def __len__(self) -> int:
        return self._count

    @property
    def resident(self) -> Tensor | None:
        """All images, (N, 3, S, S) uint8, if they are kept on the device."""
        return self._resident

    def fetch(self, rows: Rows) -> Tensor:
        """The images of these rows, which may repeat: (B,) -> (B, 3, S, S) uint8 on the device."""
        return next(self.iterate([rows]))

    def iterate(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """`fetch` of each batch, while the next ones are prepared."""
        if self._resident is not None:
            for rows in batches:
                yield self._resident.index_select(0, self._sent(torch.from_numpy(self._checked(rows))))
        elif self._packed is None and self.options.workers and isinstance(self._images, ImageFiles):
            for rows, pixels, failures in self._from_workers(batches):
                self._report(rows, failures)
                yield self._sent(pixels)
        else:
            for rows, pixels, failures in self._from_thread(batches):
                self._report(rows, failures)
                yield self._sent(pixels)

    def close(self) -> None:
        """End the workers. Those of a feed that is never closed end with this process."""
        self._close_pool()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _checked(self, rows: Rows) -> Rows:
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if len(rows) and (rows.min() < 0 or rows.max() >= self._count):
            raise IndexError(f"rows must be in [0, {self._count})")
        return rows

    def _sent(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            tensor = tensor if tensor.is_pinned() else tensor.pin_memory()
            return tensor.to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def _empty(self, count: int) -> Tensor:
        pinned = self.device.type == "cuda"
        return torch.empty((count, 3, self.size, self.size), dtype=torch.uint8, pin_memory=pinned)

    def _base(self, rows: Rows) -> Rows:
        """Rows of the split -> rows of the underlying images."""
        return rows if self._rows is None else self._rows[rows]

    def _report(self, rows: Rows, failures: Failures) -> None:
        for position, why in failures:
            if not self.options.skip_bad:
                raise UserError(why)
            self.bad[int(rows[position])] = why

    def _keep(self, progress: Progress | None) -> Tensor:
        """All images of the split as one tensor on the device."""
        images = torch.empty((self._count, 3, self.size, self.size), dtype=torch.uint8, device=self.device)
        steps = [np.arange(i, min(i + 64, self._count), dtype=np.int64) for i in range(0, self._count, 64)]
        for rows, pixels in zip(steps, self.iterate(steps), strict=True):
            images[int(rows[0]) : int(rows[-1]) + 1] = pixels
            if progress is not None:
                progress(int(rows[-1]) + 1, self._count)
        return images

    # In this process: read from the packed cache or decoded here, by one thread that works ahead of the caller.

    def _gather(self, rows: Rows) -> tuple[Tensor, Failures]:
        base, out = self._base(rows), self._empty(len(rows))
        view: Pixels = out.numpy()
        failures: Failures = []
        for position, row in enumerate(base):
            if self._packed is not None:
                view[position] = self._packed.pixels[row]
                if int(row) in self._packed.bad:
                    failures.append((position, self._packed.bad[int(row)]))
                continue
            try:
                view[position] = self._images.load(int(row), self.size).transpose(2, 0, 1)
            except UserError as error:
                view[position] = 0
                failures.append((position, str(error)))
        return out, failures

    def _from_thread(self, batches: Iterable[Rows]) -> Iterator[tuple[Rows, Tensor, Failures]]:
        def gather(rows: Rows) -> tuple[Rows, Tensor, Failures]:
            return (rows, *self._gather(rows))

        if isinstance(batches, list) and len(batches) == 1:  # nothing to work ahead on
            yield gather(self._checked(batches[0]))
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "scob-feed")
        yield from work_ahead(self._thread, gather, map(self._checked, batches), AHEAD)

    # In worker processes, which take several batches ahead of the caller.

    def _workers(self, batch: int) -> DecodePool:
        if self._pool is None or not self._pool.alive:
            self._pool = DecodePool(self.options.workers, self.size, min(max(batch, 8), LARGEST_BLOCK), AHEAD + 2)
        return self._pool

    def _task(self, row: int) -> tuple[str, str]:
        assert isinstance(self._images, ImageFiles)
        return self._images.paths[row], self._images.where(row)

    def _from_workers(self, batches: Iterable[Rows]) -> Iterator[tuple[Rows, Tensor, Failures]]:
        coming: deque[tuple[Rows, list[tuple[Rows, Ticket | None]]]] = deque()
        pieces_under_way = 0
        try:
            for batch in batches:
                rows = self._checked(batch)
                pool = self._workers(len(rows))
                pieces = [rows[i : i + pool.capacity] for i in range(0, len(rows), pool.capacity)]
                while coming and pieces_under_way + len(pieces) > AHEAD:
                    pieces_under_way -= len(coming[0][1])
                    yield self._collected(*coming.popleft())
                tickets = [(piece, pool.submit([self._task(int(r)) for r in self._base(piece)])) for piece in pieces]
                coming.append((rows, tickets))
                pieces_under_way += len(pieces)
            while coming:
                yield self._collected(*coming.popleft())
        finally:
            for _, tickets in coming:
                for _, ticket in tickets:
                    if ticket is not None and self._pool is not None and self._pool.alive:
                        self._pool.release(ticket)

    def _collected(self, rows: Rows, tickets: list[tuple[Rows, Ticket | None]]) -> tuple[Rows, Tensor, Failures]:
        out, failures, start = self._empty(len(rows)), [], 0
        for piece, ticket in tickets:
            if ticket is None:  # every block was in use
                decoded, piece_failures = self._gather(piece)
                out[start : start + len(piece)] = decoded
            else:
                assert self._pool is not None
                pixels, piece_failures = self._pool.collect(ticket)
                out[start : start + len(piece)] = torch.from_numpy(pixels)
                self._pool.release(ticket)
            failures += [(start + position, why) for position, why in piece_failures]
            start += len(piece)
        return rows, out, failures

    def _decode_all(self, batches: Iterator[Rows]) -> Iterator[tuple[Pixels, Failures]]:
        source = self._from_workers(batches) if self.options.workers else self._from_thread(batches)
        for _, pixels, failures in source:
            yield pixels.numpy(), failures


def unwrap(images: Images) -> tuple[Images, Rows | None]:
    """The images beneath any selections of them, and the rows selected (None: all, in order)."""
    rows: Rows | None = None
    while isinstance(images, ChosenImages):
        rows = images.rows if rows is None else images.rows[rows]
        images = images.images
    return images, rows
