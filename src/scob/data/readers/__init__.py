"""Which reader reads which source. A new reader is a module with the functions of `ReaderModule`, and a line here."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

# They are tried in this order: layouts with a fixed shape come before those that match almost any folder.
READERS = {
    "scenes": "scob.data.scenes.reader",
    "voc": "scob.data.readers.voc",
    "coco": "scob.data.readers.coco",
    "cub": "scob.data.readers.cub",
    "table": "scob.data.readers.table",
    "folder": "scob.data.readers.folder",
}


class ReaderModule(Protocol):
    """The functions of a reader's module."""

    def recognises(self, source: Path) -> bool:
        """Whether the files at `source` have this reader's layout."""
        ...

    def splits(self, source: Path) -> tuple[str, ...]:
        """The split names that `read` takes, the training split first."""
        ...

    def read(self, source: Path, split: str | None, options: ReadOptions) -> Split:
        """One split of the source; None: all its images."""
        ...


def reader(name: str) -> ReaderModule:
    """The reader of that name, imported now."""
    if name not in READERS:
        raise UserError(f"there is no reader {name!r}; the readers are {', '.join(READERS)}")
    return cast(ReaderModule, importlib.import_module(READERS[name]))


def is_scenes(source: str) -> bool:
    """Whether `source` asks for the embedded drawings: 'scenes' or 'scenes:COUNTxSIZE'."""
    return source == "scenes" or source.startswith("scenes:")


def infer_format(source: str) -> str:
    """The name of the reader that recognises `source`."""
    if is_scenes(source):
        return "scenes"
    path = Path(source)
    if not path.exists():
        searched = "" if path.is_absolute() else f" (a relative path starts from the current folder, {Path.cwd()})"
        raise UserError(
            f"there is no data at {source}{searched}; give a folder, a table (CSV or JSON lines), or 'scenes'"
        )
    for name in READERS:
        if reader(name).recognises(path):
            return name
    raise UserError(
        f"{source} is neither VOC, COCO nor CUB, nor a CSV or JSON-lines table, nor a folder with one folder "
        "of images per class; name its kind with format: " + "|".join(READERS)
    )


def splits_of(source: str, format: str = "auto") -> tuple[str, ...]:
    """The names of a source's splits. A source without splits of its own is one split named 'train'."""
    name = infer_format(source) if format == "auto" else format
    return reader(name).splits(Path(source))


def open_split(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """Read one split of a source (None: all of it).

    With `options.skip_bad`, broken rows and images are left out and listed in `skipped`. Every image is decoded once
    for that, so that a run knows its images before it starts.
    """
    opened = read_split(source, split, options, format)
    if not len(opened):
        raise UserError(f"{source}: the split {opened.name!r} has no usable images")
    if options.skip_bad and not is_scenes(source):
        from scob.data.check import without_broken

        opened = without_broken(opened)
    return opened


def open_complete(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """`open_split` for data that results are measured on, where every label must be known.

    If a table names only what is present, every other class counts as absent. A folder per class cannot say what is
    absent, so nothing can be measured on it.
    """
    opened = open_split(source, split, options, format)
    labels = opened.labels
    if not (labels.values == PRESENT).any():
        raise UserError(
            f"{source}: no image of the split {opened.name!r} has a known label, so there is nothing to measure"
        )
    if (labels.values == ABSENT).any():
        return opened
    if (infer_format(source) if format == "auto" else format) != "table":
        raise UserError(
            f"{source} does not say which classes an image does not show, so precision cannot be measured: "
            "list every class of each image in a table (image,label)"
        )
    values = np.where(labels.values == PRESENT, PRESENT, ABSENT).astype(np.int8)
    return replace(opened, labels=Labels(labels.classes, labels.images, values, labels.origin))


def read_split(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """`open_split`, but no image is decoded."""
    name = infer_format(source) if format == "auto" else format
    module = reader(name)
    if name == "scenes":
        from scob.data.scenes import reader as scenes

        return scenes.read(source, split, options)
    path = Path(source)
    if not path.exists():
        raise UserError(f"there is no data at {source}")
    return module.read(path, split, options)


def no_such_split(source: Path, split: str, splits: tuple[str, ...]) -> UserError:
    """The error for a split that does not exist."""
    known = ", ".join(splits) or "none"
    return UserError(f"{source} has no split {split!r}; it has: {known}")
