"""Which reader reads which source. A new reader is a module with the functions of `ReaderModule`, and a line here.

Other packages offer theirs through entry points (`scob.plugins`).
"""

import difflib
import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.plugins import check_names, load_plugin, plugins

# They are tried in this order: layouts with a fixed shape come before those that match almost any folder.
READERS = {
    "scenes": "scob.data.scenes.reader",
    "voc": "scob.data.readers.voc",
    "nuswide": "scob.data.readers.nus_wide",
    "matrices": "scob.data.readers.label_matrices",
    "coco": "scob.data.readers.coco",
    "cub": "scob.data.readers.cub",
    "yolo": "scob.data.readers.yolo",
    "labelstudio": "scob.data.readers.label_studio",
    "huggingface": "scob.data.readers.hugging_face",
    "table": "scob.data.readers.table",
    "folder": "scob.data.readers.folder",
}
TABLES = ("table", "labelstudio", "huggingface")  # each image with the labels that it has
OWN_IMAGES = (*TABLES, "folder", "yolo")  # a user's own images, which need not be split; benchmarks are


class SplitError(UserError):
    """A split that does not exist, has no images, or cannot be measured on."""


class ReaderModule(Protocol):
    """The functions of a reader's module."""

    def recognises(self, source: Path) -> bool:
        """Whether the files at `source` have this reader's layout."""
        ...

    def title(self, source: Path, options: ReadOptions) -> str:
        """What the layout is taken for, in words, and how many classes it has; no image is opened."""
        ...

    def splits(self, source: Path) -> tuple[str, ...]:
        """The split names that `read` takes, the training split first."""
        ...

    def read(self, source: Path, split: str | None, options: ReadOptions) -> Split:
        """One split of the source; None: all its images."""
        ...


MATCH_ALMOST_ANYTHING = ("table", "folder")


def reader_names() -> list[str]:
    """All readers in the order in which they are tried; those of other packages before the least particular ones."""
    check_names("readers", READERS)
    fixed = [name for name in READERS if name not in MATCH_ALMOST_ANYTHING]
    return [*fixed, *sorted(plugins("readers")), *MATCH_ALMOST_ANYTHING]


def reader(name: str) -> ReaderModule:
    """The reader of that name, imported now."""
    if name in READERS:
        return cast(ReaderModule, importlib.import_module(READERS[name]))
    if name not in reader_names():
        raise UserError(f"there is no reader {name!r}; the readers are {', '.join(reader_names())}")
    offered = load_plugin(plugins("readers")[name])
    if not all(callable(getattr(offered, function, None)) for function in ("recognises", "splits", "read")):
        raise UserError(f"the reader {name!r} of another package lacks one of recognises, splits and read")
    return cast(ReaderModule, offered)


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
    for name in reader_names():
        if reader(name).recognises(path):
            return name
    raise UserError(
        f"{source} is neither VOC, COCO nor CUB, nor a CSV or JSON-lines table, nor a folder with one folder "
        f"of images per class{_folders_that_are_no_classes(path)}; sort the images into such folders, or write a CSV "
        "image,label; a layout that was not recognised is named with --format or data.format: "
        + "|".join(reader_names())
    )


def _folders_that_are_no_classes(source: Path) -> str:
    """' (its folders images and labels are not classes)' where that is why nothing was recognised."""
    names = sorted(path.name for path in source.iterdir() if path.is_dir()) if source.is_dir() else []
    return f" (its folders {' and '.join(names[:4])} are not classes)" if 0 < len(names) <= 4 else ""


def taken_as(source: str, options: ReadOptions = ReadOptions(), format: str = "auto") -> str:
    """What a source is taken for, such as 'COCO, 80 classes', from its names and labels; no image is opened."""
    name = infer_format(source) if format == "auto" else format
    module = reader(name)
    return module.title(Path(source), options) if hasattr(module, "title") else name  # other packages' may have none


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
        raise SplitError(f"{source}: the split {opened.name!r} has no usable images")
    if options.skip_bad and not is_scenes(source):
        from scob.data.check import without_broken

        opened = without_broken(opened, progress=options.progress)
    return opened


def open_complete(source: str, split: str | None, options: ReadOptions = ReadOptions(), format: str = "auto") -> Split:
    """`open_split` for data that results are measured on, where every label must be known.

    One rule for all tables: if nothing in the split is said to be absent, every class that an image does not list
    counts as absent; else it is unknown, and not measured. A folder per class cannot say what is absent, so nothing
    can be measured on it. Neither can it where no class has both a positive and a negative.
    """
    opened = open_split(source, split, options, format)
    labels = opened.labels
    if not (labels.values == PRESENT).any():
        raise SplitError(
            f"{source}: no image of the split {opened.name!r} has a known label, so there is nothing to measure"
        )
    kind = infer_format(source) if format == "auto" else format
    if not (labels.values == ABSENT).any():
        if kind not in TABLES:
            why = "does not say which classes an image does not show"
            if kind == "folder":
                why = "has one folder per class, which cannot tell what else an image shows"
            raise SplitError(
                f"{source} {why}, so nothing can be measured on it: list every class of each image in a table "
                "(image,label)"
            )
        values = np.where(labels.values == PRESENT, PRESENT, ABSENT).astype(np.int8)
        labels = Labels(labels.classes, labels.images, values, labels.origin)
        opened = replace(opened, labels=labels, unlisted="absent")
    elif kind in TABLES and (labels.values == UNKNOWN).any():
        opened = replace(opened, unlisted="unknown")
    check_measurable(opened, source)
    return opened


def check_measurable(split: Split, source: str) -> None:
    """Refuse a split on which no class can be measured."""
    values = split.labels.values
    if not ((values == PRESENT).any(axis=0) & (values == ABSENT).any(axis=0)).any():
        raise SplitError(
            f"{source}: no class of the split {split.name!r} is present in one image and absent from another, so "
            "there is nothing to measure: add images"
        )


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


def match_split(split: str, splits: tuple[str, ...]) -> str | None:
    """The split of that name, or else the only one of that kind ('val' means 'val2014'); None if there is none."""
    if split in splits:
        return split
    alike = [name for name in splits if _kind(name) == _kind(split)]
    return alike[0] if split and not split[-1].isdigit() and len(alike) == 1 else None


def find_split(source: Path | str, split: str, splits: tuple[str, ...]) -> str:
    """`match_split`, or an error that names the nearest split and lists all."""
    name = match_split(split, splits)
    if name is None:
        raise no_such_split(source, split, splits)
    return name


def no_such_split(source: Path | str, split: str, splits: tuple[str, ...]) -> SplitError:
    """The error for a split that does not exist: it names the nearest and lists all."""
    names = {**{_kind(name): name for name in reversed(splits)}, **{name: name for name in splits}}
    close = difflib.get_close_matches(split, names, n=1)
    hint = f" (did you mean {names[close[0]]!r}?)" if close else ""
    return SplitError(f"{source} has no split {split!r}; it has: {', '.join(splits) or 'none'}{hint}")


def _kind(split: str) -> str:
    """'val' for 'val2014', 'valid' and 'validation'."""
    stem = re.sub(r"[-_]?\d+$", "", split)
    return "val" if stem in ("valid", "validation") else stem
