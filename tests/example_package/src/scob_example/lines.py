"""A data set of images/ and labels.txt, which has one line per image: `file,class,class,...`."""

from pathlib import Path

import numpy as np

from scob.data.images import ImageFiles
from scob.data.readers import find_split
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels


def recognises(source: Path) -> bool:
    """Whether the files at `source` have this layout."""
    return (source / "labels.txt").is_file()


def splits(source: Path) -> tuple[str, ...]:
    """The names that `read` accepts."""
    return ("train",)


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """The images and their full labels."""
    if split is not None:
        find_split(source, split, splits(source))
    file = source / "labels.txt"
    rows = [line.split(",") for line in file.read_text().splitlines() if line]
    if not rows:
        raise UserError(f"{file} is empty: write one line per image, file,class,class,...")
    classes = options.classes or tuple(sorted({name for _, *names in rows for name in names}))
    values = np.array([[PRESENT if c in names else ABSENT for c in classes] for _, *names in rows], dtype=np.int8)
    labels = Labels(classes, tuple(image for image, *_ in rows), values, "full")
    return Split("train", labels, ImageFiles(tuple(str(source / "images" / image) for image, *_ in rows)))
