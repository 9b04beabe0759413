"""What a data report measures of each image: its size, brightness, sharpness, and a fingerprint of how it looks."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scob.data.feed import unwrap
from scob.data.images import ImageFiles, size_of
from scob.data.progress import Progress
from scob.data.split import Split
from scob.errors import UserError

SIDE = 128  # pixels at which images are compared
NEAR, CLOSE = 6, 9.0  # bits of 128 and grey levels by which near-duplicates may differ
FLAT = 0.5  # grey levels that are no difference
DARK, BLURRED = 32.0, 1 / 12  # grey level; sharpness as a share of the median
MOST_COMPARED = 20_000  # beyond, only equal fingerprints count as duplicates


@dataclass(frozen=True)
class Measures:
    """N images of a split, in order; a broken one has a sentence in `broken`, and zeros."""

    width: NDArray[np.int64]
    height: NDArray[np.int64]
    brightness: NDArray[np.float32]
    sharpness: NDArray[np.float32]
    looks: NDArray[np.uint8]  # (N, 16) bytes: 128 bits
    colours: NDArray[np.float32]  # (N, 48): a picture of 4 x 4 pixels
    broken: dict[int, str]

    @property
    def good(self) -> NDArray[np.bool_]:
        """(N,) which images can be read."""
        good = np.ones(len(self.width), bool)
        good[list(self.broken)] = False
        return good

    def dark(self) -> list[int]:
        """The rows of images that are almost black."""
        return np.flatnonzero(self.good & (self.brightness < DARK)).tolist()

    def blurred(self) -> list[int]:
        """The rows of images that are far less sharp than most."""
        if not self.good.any():
            return []
        limit = BLURRED * float(np.median(self.sharpness[self.good]))
        return np.flatnonzero(self.good & (self.sharpness < limit) & (self.brightness >= DARK)).tolist()


def measure(split: Split, progress: Progress | None = None) -> Measures:
    """Decode every image once, small."""
    count = len(split)
    sizes = np.zeros((count, 2), np.int64)
    tones = np.zeros((count, 2), np.float32)
    looks, colours = np.zeros((count, 16), np.uint8), np.zeros((count, 48), np.float32)
    broken: dict[int, str] = {}
    for row in range(count):
        try:
            pixels = split.images.load(row, SIDE)
            sizes[row] = image_size(split, row)
        except UserError as error:
            broken[row] = str(error)
        else:
            grey = pixels.mean(axis=2, dtype=np.float32)
            tones[row] = float(grey.mean()), sharpness(grey)
            looks[row], colours[row] = look(grey), _shrunk(pixels, 4, 4).ravel()
        if progress is not None:
            progress(row + 1, count)
    return Measures(sizes[:, 0], sizes[:, 1], tones[:, 0], tones[:, 1], looks, colours, broken)


def sharpness(grey: NDArray[np.float32]) -> float:
    """The mean square of what is left of a picture when each pixel's neighbours are subtracted."""
    inner = 4 * grey[1:-1, 1:-1] - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return float((inner**2).mean())


def look(grey: NDArray[np.float32]) -> NDArray[np.uint8]:
    """128 bits of how a picture looks: whether it gets brighter to the right and downwards, in 8 x 8 places."""
    right, down = _shrunk(grey[..., None], 8, 9)[..., 0], _shrunk(grey[..., None], 9, 8)[..., 0]
    bits = np.concatenate([(right[:, 1:] > right[:, :-1] + FLAT).ravel(), (down[1:] > down[:-1] + FLAT).ravel()])
    return np.packbits(bits)


def _shrunk(pixels: NDArray[np.generic], rows: int, columns: int) -> NDArray[np.float32]:
    """The means of a grid of places, (rows, columns, channels)."""
    height, width = pixels.shape[:2]
    vertical = np.add.reduceat(pixels.astype(np.float32), np.arange(rows) * height // rows, axis=0)
    both = np.add.reduceat(vertical, np.arange(columns) * width // columns, axis=1)
    tall = np.diff(np.append(np.arange(rows) * height // rows, height))
    wide = np.diff(np.append(np.arange(columns) * width // columns, width))
    return np.asarray(both / (tall[:, None, None] * wide[None, :, None]), np.float32)


def image_size(split: Split, row: int) -> tuple[int, int]:
    """The width and height of an image of a split; a file's are in its header."""
    images, chosen = unwrap(split.images)
    if isinstance(images, ImageFiles):
        return size_of(images.paths[row if chosen is None else int(chosen[row])], split.images.where(row))
    height, width = split.images.load(row).shape[:2]
    return width, height


def near_duplicates(parts: Iterable[Measures]) -> list[list[tuple[int, int]]]:
    """Groups of images that look the same, as (part, row): those of several splits together show leakage."""
    measured = list(parts)
    places = [(part, int(row)) for part, m in enumerate(measured) for row in np.flatnonzero(m.good)]
    if len(places) < 2:
        return []
    looks = np.stack([measured[part].looks[row] for part, row in places])
    colours = np.stack([measured[part].colours[row] for part, row in places])
    parent = list(range(len(places)))

    def top(n: int) -> int:
        while parent[n] != n:
            parent[n] = n = parent[parent[n]]
        return n

    for first, second in _alike(looks, colours):
        parent[top(second)] = top(first)
    groups: dict[int, list[tuple[int, int]]] = {}
    for n, place in enumerate(places):
        groups.setdefault(top(n), []).append(place)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)


def _alike(looks: NDArray[np.uint8], colours: NDArray[np.float32]) -> Iterable[tuple[int, int]]:
    if len(looks) > MOST_COMPARED:
        first: dict[bytes, int] = {}
        for n, bits in enumerate(looks):
            seen = first.setdefault(bits.tobytes(), n)
            if seen != n and np.abs(colours[seen] - colours[n]).mean() < CLOSE:
                yield seen, n
        return
    words = np.ascontiguousarray(looks).view(np.uint64)
    for n in range(len(words) - 1):
        apart = np.bitwise_count(words[n + 1 :] ^ words[n]).sum(axis=1)
        for other in np.flatnonzero(apart <= NEAR) + n + 1:
            if np.abs(colours[n] - colours[other]).mean() < CLOSE:
                yield n, int(other)
