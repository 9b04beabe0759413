"""Which reader reads which source. A new one: a file with `recognises`, `splits`, `read`, and a line here."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

# In the order in which they are asked: the layouts with a fixed shape before those that take any folder.
READERS = {
    "scenes": "scob.data.scenes.composition",
    "voc": "scob.data.readers.voc",
    "coco": "scob.data.readers.coco",
    "cub": "scob.data.readers.cub",
    "table": "scob.data.readers.table",
    "folder": "scob.data.readers.folder",
}


class ReaderModule(Protocol):
    """What a reader's file offers."""

    def recognises(self, source: Path) -> bool:
        """Whether the files at `source` have this reader's layout."""
        ...

    def splits(self, source: Path) -> tuple[str, ...]:
        """The names that `read` takes, the training split first."""
        ...

    def read(self, source: Path, split: str | None, options: ReadOptions) -> Split: ...


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
        looked = "" if path.is_absolute() else f" (looked in {Path.cwd()}: a relative path begins where scob is called)"
        raise UserError(
            f"there is no data at {source}{looked}; give a folder, a table (CSV or JSON lines), or 'scenes'"
        )
    for name in READERS:
        if name != "scenes" and reader(name).recognises(path):
            return name
    raise UserError(
        f"{source} is neither VOC, COCO nor CUB, nor a CSV or JSON-lines table, nor a folder with one folder "
        "of images per class; name its kind with format: " + "|".join(READERS)
    )


def splits_of(source: str, format: str = "auto") -> tuple[str, ...]:
    """The names of a source's splits. Without splits of its own, a source is one split named 'train'."""
    name = infer_format(source) if format == "auto" else format
    module = reader(name)
    if name == "scenes":
        return tuple(getattr(module, "SPLITS", ("train", "val")))
    return module.splits(Path(source))


def open_split(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """Read one split of a source (None: all of it); `options.skip_bad` drops and lists what is broken.

    With `skip_bad` every image is decoded once, so that a run knows what it trains on before it starts.
    """
    found = read_split(source, split, options, format)
    if not len(found):
        raise UserError(f"{source}: the split {found.name!r} holds no image that can be used")
    if options.skip_bad and not is_scenes(source):
        from scob.data.check import without_broken

        found = without_broken(found)
    return found


def open_complete(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """`open_split` of what results are measured on.

    A table that names only what is present is taken to list every class of its images: the rest is absent. A folder per
    class cannot say what is absent, so nothing can be measured on it.
    """
    found = open_split(source, split, options, format)
    labels = found.labels
    if not (labels.values == PRESENT).any():
        raise UserError(
            f"{source}: no image of the split {found.name!r} has a known label; there is nothing to measure"
        )
    if (labels.values == ABSENT).any():
        return found
    if (infer_format(source) if format == "auto" else format) != "table":
        raise UserError(
            f"{source} says of no class that an image does not show it, so precision cannot be measured: "
            "list every class of each image in a table (image,label)"
        )
    values = np.where(labels.values == PRESENT, PRESENT, ABSENT).astype(np.int8)
    return replace(found, labels=Labels(labels.classes, labels.images, values, labels.origin))


def read_split(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """`open_split` without a look at the images themselves."""
    name = infer_format(source) if format == "auto" else format
    module = reader(name)
    if name == "scenes":
        from scob.data.scenes import composition as scenes

        return scenes.read(source, split, options)
    path = Path(source)
    if not path.exists():
        raise UserError(f"there is no data at {source}")
    return module.read(path, split, options)


def no_such_split(source: Path, split: str, splits: tuple[str, ...]) -> UserError:
    """The error for a split that is not there."""
    known = ", ".join(splits) or "none"
    return UserError(f"{source} has no split {split!r}; it has: {known}")
