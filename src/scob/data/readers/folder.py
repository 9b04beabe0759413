"""A folder with one folder of images per class; there may be one folder per split above them."""

import os
from pathlib import Path

import numpy as np

from scob.data.images import SUFFIXES, ImageFiles, Root, image_names, rows_word, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.text_lists import class_list, unknown_class
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import PRESENT, Labels

SPLIT_NAMES = ("train", "val", "valid", "validation", "test")
# Folders of other layouts: where there is nothing else, they are not classes.
NOT_CLASSES = frozenset((*SPLIT_NAMES, "images", "imgs", "img", "labels", "annotations", "masks", "flickr"))


def recognises(source: Path) -> bool:
    """Whether some folder here contains images and may be a class."""
    return source.is_dir() and bool(class_names(source))


def class_names(source: Path) -> tuple[str, ...]:
    """The folders with images, one per class; none if they are all called images, labels, train and the like."""
    tops = [source / name for name in _split_folders(source)] or [source]
    names = {folder.name for top in tops for folder in _folders(top) if _has_images(folder)}
    return () if {name.lower() for name in names} <= NOT_CLASSES else tuple(sorted(names))


def title(source: Path, options: ReadOptions) -> str:
    """How many classes there are."""
    classes = class_list(source, options) or class_names(source)
    text = f"one folder per class, {len(classes)} class{'' if len(classes) == 1 else 'es'}"
    if stray := stray_images(source):
        one = len(stray) == 1
        which = "1 image" if one else f"{len(stray):,} images"
        text += (
            f"; {which} beside these folders {'has' if one else 'have'} no class and {'is' if one else 'are'} left out "
            f"({rows_word(stray, 3)})"
        )
    return text


def stray_images(source: Path) -> list[str]:
    """The images beside the class folders: no folder says what they show."""
    tops = _split_folders(source) or ("",)
    return sorted(
        str(path.relative_to(source))
        for path in {source, *(source / top for top in tops)}
        for path in path.iterdir()
        if path.is_file() and not path.name.startswith(".") and path.suffix.lower() in SUFFIXES
    )


def splits(source: Path) -> tuple[str, ...]:
    """The split folders; if there are none, the whole source is 'train'."""
    return _split_folders(source) or ("train",)


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None. An image shows the class whose folder it is in; the rest is unknown."""
    split_folders = _split_folders(source)
    split = None if split is None else find_split(source, split, splits(source))
    tops = [split] if split and split_folders else list(split_folders) or [""]
    # Classes come from every split, so that a class missing in one keeps its column.
    names_seen = sorted({folder.name for top in (split_folders or ("",)) for folder in _folders(source / top)})
    classes = class_list(source, options) or tuple(names_seen)
    column = {name: i for i, name in enumerate(classes)}
    root = Root(source)
    ids: list[str] = []
    paths: list[str] = []
    columns: list[int] = []
    skipped: list[str] = []
    for top in tops:
        for folder in _folders(source / top):
            inside = f"{top}/{folder.name}" if top else folder.name
            names = image_names(folder)
            if names and folder.name not in column:
                error = unknown_class(f"the folder {folder}", folder.name, classes)
                skip_or_raise(error, options.skip_bad, skipped)
                continue
            for name in names:
                try:
                    paths.append(root.inside(f"{inside}/{name}", f"the folder {folder}"))
                except UserError as error:
                    skip_or_raise(error, options.skip_bad, skipped)
                    continue
                ids.append(f"{inside}/{name}")
                columns.append(column[folder.name])
    values = np.zeros((len(ids), len(classes)), np.int8)
    values[np.arange(len(ids)), np.array(columns, dtype=np.int64)] = PRESENT
    return Split(
        name=split or "all",
        labels=Labels(classes, tuple(ids), values, f"folders of {source.name}"),
        images=ImageFiles(tuple(paths)),
        skipped=tuple(skipped),
    )


def _has_images(folder: Path) -> bool:
    return any(
        not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        for _, _, files in os.walk(folder)
        for name in files
    )


def _folders(top: Path) -> list[Path]:
    if not top.is_dir():
        raise UserError(f"{top} is not a folder; give one that has a folder of images per class")
    return sorted(path for path in top.iterdir() if path.is_dir() and not path.name.startswith("."))


def _split_folders(source: Path) -> tuple[str, ...]:
    """Folders named like splits, if there are no other folders and each of them contains folders."""
    names = [folder.name for folder in _folders(source)]
    if not names or not set(names) <= set(SPLIT_NAMES):
        return ()  # 'train' may also be a class: then there are other classes beside it
    if not all(_folders(source / name) for name in names):
        return ()
    return tuple(name for name in SPLIT_NAMES if name in names)
