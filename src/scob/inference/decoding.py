"""Pictures of any kind to pixels, decoded by threads ahead of their use. Does not import torch."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from scob.data.ahead import work_ahead
from scob.data.images import decode
from scob.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

    Picture = str | Path | NDArray[np.uint8] | Image.Image

Pixels = NDArray[np.uint8]
Decoded = tuple[int, Pixels | None, str]
Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def decoded_ahead(
    load: Callable[[Item], Result], items: Iterable[Item], ahead: int, threads: int
) -> Iterator[Iterator[Result]]:
    """`load(item)` of each item, in order, with `ahead` more items under way; leaving early cancels the rest."""
    with ThreadPoolExecutor(threads, "scob-decode") as pool:
        try:
            yield work_ahead(pool, load, items, ahead)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def decoded_batches(pictures: "Sequence[Picture]", size: int, batch: int) -> Generator[list[Decoded], None, None]:
    """Batches of (number, pixels or None, error), decoded two batches ahead of their use."""

    def load(number: int) -> Decoded:
        try:
            return number, load_picture(pictures[number], size), ""
        except UserError as error:
            return number, None, reason(error, name_of(pictures[number], number))

    if batch < 1:
        raise UserError(f"the batch must contain at least one image, not {batch}")
    threads = min(8, os.cpu_count() or 1)
    with decoded_ahead(load, range(len(pictures)), 2 * batch, threads) as decoded:
        while group := list(islice(decoded, batch)):
            yield group


def as_list(images: "Picture | Sequence[Picture]") -> "list[Picture]":
    """One picture or several, as a list."""
    if isinstance(images, (str, Path, np.ndarray)) or hasattr(images, "convert"):
        if isinstance(images, np.ndarray) and images.ndim == 4:
            return list(images)
        return [images]  # type: ignore[list-item]
    return list(images)


def load_picture(picture: "Picture", size: int) -> Pixels:
    """(size, size, 3) from a path, an array or a PIL image, resized the same way."""
    if isinstance(picture, (str, Path)):
        return decode(picture, size)
    from PIL import Image

    if isinstance(picture, np.ndarray):
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise UserError(f"an image array must be (H, W, 3) uint8, not {picture.shape} {picture.dtype}")
        picture = Image.fromarray(picture)
    rgb = picture.convert("RGB")
    if rgb.size != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(rgb)


def name_of(picture: "Picture", number: int) -> str:
    """How a picture is named in the results: by its path, or by its number."""
    return str(picture) if isinstance(picture, (str, Path)) else f"image {number}"


def reason(error: UserError, name: str) -> str:
    """What is wrong with one image, without its name and without advice about training."""
    return str(error).removeprefix(f"{name}: ").partition(";")[0]
