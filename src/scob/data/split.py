"""What every reader returns: images by index, their labels and, if the data set has them, object masks and boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scob.data.progress import Progress
from scob.labels import Labels


class Images(Protocol):
    """Images by index, decoded to RGB."""

    def __len__(self) -> int: ...

    def load(self, index: int, size: int | None = None) -> NDArray[np.uint8]:
        """(H, W, 3) RGB with the EXIF rotation applied; squash-resized to (size, size) if asked."""
        ...

    def where(self, index: int) -> str:
        """How to name this image in a message: its file and, for a table, its row."""
        ...


@dataclass(frozen=True)
class ObjectMasks:
    """Segmentation of one image: one boolean (H, W) mask per class present, and the pixels of unknown class."""

    present: dict[int, NDArray[np.bool_]]
    void: NDArray[np.bool_]

    def of(self, label: int) -> NDArray[np.bool_] | None:
        """The pixels of a class; None if there are none."""
        mask = self.present.get(label)
        return mask if mask is not None and (mask & ~self.void).any() else None


class Masks(Protocol):
    """Segmentation by image index; None for an image without one."""

    def load(self, index: int) -> ObjectMasks | None: ...


@dataclass(frozen=True)
class ObjectBox:
    """One annotated object: its class, its box as x0, y0, x1, y1 in fractions of the image, if it is difficult."""

    label: int
    corners: tuple[float, float, float, float]
    difficult: bool = False


class Boxes(Protocol):
    """The annotated boxes of an image, by its index; None for an image whose objects have none."""

    def load(self, index: int) -> tuple[ObjectBox, ...] | None: ...


@dataclass(frozen=True)
class Split:
    """One split of a data set. Index i means the same image in `labels`, `images`, `masks` and `boxes`."""

    name: str
    labels: Labels
    images: Images
    masks: Masks | None = None
    skipped: tuple[str, ...] = ()
    expected_positives: float | None = None  # k of Eq. 11, if papers agree on a value for this data set
    remarks: tuple[str, ...] = ()  # what the reader has to say about these data, for `scob data describe`
    boxes: Boxes | None = None
    unlisted: str = ""  # what a class counts as that an image does not list, if a table decides that: absent, unknown

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> "Split":
        """Some images of the split, in the order of `rows`."""
        rows = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            labels=self.labels.select(rows),
            images=ChosenImages(self.images, rows),
            masks=ChosenMasks(self.masks, rows) if self.masks is not None else None,
            boxes=ChosenBoxes(self.boxes, rows) if self.boxes is not None else None,
        )


@dataclass(frozen=True)
class ChosenImages:
    """A selection of `images`."""

    images: Images
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, index: int, size: int | None = None) -> NDArray[np.uint8]:
        return self.images.load(int(self.rows[index]), size)

    def where(self, index: int) -> str:
        return self.images.where(int(self.rows[index]))


@dataclass(frozen=True)
class ChosenMasks:
    """A selection of `masks`."""

    masks: Masks
    rows: NDArray[np.int64]

    def load(self, index: int) -> ObjectMasks | None:
        return self.masks.load(int(self.rows[index]))


@dataclass(frozen=True)
class ChosenBoxes:
    """A selection of `boxes`."""

    boxes: Boxes
    rows: NDArray[np.int64]

    def load(self, index: int) -> tuple[ObjectBox, ...] | None:
        return self.boxes.load(int(self.rows[index]))


@dataclass(frozen=True)
class ArrayImages:
    """Images in memory: (N, H, W, 3) uint8."""

    array: NDArray[np.uint8]
    name: str

    def __len__(self) -> int:
        return len(self.array)

    def load(self, index: int, size: int | None = None) -> NDArray[np.uint8]:
        from PIL import Image

        pixels: NDArray[np.uint8] = self.array[index]
        if size is None or pixels.shape[:2] == (size, size):
            return pixels
        return np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))

    def where(self, index: int) -> str:
        return f"{self.name} {index}"


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source. `difficult`: what VOC's difficult objects count as (negative, positive or ignore).

    `progress` hears how many images have been decoded where each one is (`skip_bad`).
    `separator`: what separates several labels in a table's cell; 'auto' finds it, 'none': a cell is one label.
    """

    difficult: str = "negative"
    classes: tuple[str, ...] | None = None
    skip_bad: bool = False
    seed: int = 0
    separator: str = "auto"
    progress: Progress | None = None
