"""NUS-WIDE in its official layout: ImageList, Groundtruth/TrainTestLabels, Concepts81.txt and the Flickr images."""

from pathlib import Path

import numpy as np

from scob.data.images import ImageFiles, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.named_images import NamedImages
from scob.data.readers.text_lists import read_lines
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

LISTS = {"train": "Train", "test": "Test"}


def home(source: Path) -> Path | None:
    """The folder that contains ImageList: `source` or the NUS-WIDE below it."""
    for folder in (source, source / "NUS-WIDE", source / "nus_wide"):
        if (folder / "ImageList").is_dir() and _labels_folder(folder) is not None:
            return folder
    return None


def recognises(source: Path) -> bool:
    """Whether this is NUS-WIDE."""
    return source.is_dir() and home(source) is not None


def title(source: Path, options: ReadOptions) -> str:
    """How many concepts there are."""
    return f"NUS-WIDE, {len(_concepts(_home(source)))} classes"


def splits(source: Path) -> tuple[str, ...]:
    """Always train and test."""
    return tuple(LISTS)


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None."""
    folder = _home(source)
    split = None if split is None else find_split(source, split, tuple(LISTS))
    classes = _concepts(folder)
    if options.classes is not None and options.classes != classes:
        raise UserError(f"{source}: its concepts are not the classes asked for; leave the classes out, or list these")
    finder = NamedImages(folder)
    names: list[str] = []
    paths: list[str] = []
    notes: list[str] = []
    rows: list[np.ndarray[tuple[int], np.dtype[np.int8]]] = []
    skipped: list[str] = []
    for part in LISTS if split is None else (split,):
        table = _annotations(folder, LISTS[part], classes)
        listed = list(read_lines(_list_file(folder, LISTS[part])))
        if len(listed) != len(table):
            raise UserError(
                f"{source}: the {part} list names {len(listed)} images, but there are labels of {len(table)}"
            )
        for (number, line), row in zip(listed, table, strict=True):
            where = f"{_list_file(folder, LISTS[part]).name} line {number}"
            try:
                path, name = finder.find(line.split()[0].replace("\\", "/"), where)
            except UserError as error:
                skip_or_raise(error, options.skip_bad, skipped)
                continue
            names.append(name)
            paths.append(path)
            notes.append(where)
            rows.append(row)
    values = np.stack(rows) if rows else np.zeros((0, len(classes)), np.int8)
    labels = Labels(classes, tuple(names), values, "full")
    return Split(split or "all", labels, ImageFiles(tuple(paths), tuple(notes)), skipped=tuple(skipped))


def _home(source: Path) -> Path:
    folder = home(source)
    if folder is None:
        raise UserError(f"{source} is not in the layout of NUS-WIDE: it has no ImageList and Groundtruth")
    return folder


def _labels_folder(folder: Path) -> Path | None:
    for name in ("Groundtruth/TrainTestLabels", "TrainTestLabels", "Groundtruth"):
        if any((folder / name).glob("Labels_*_Train.txt")):
            return folder / name
    return None


def _concepts(folder: Path) -> tuple[str, ...]:
    listed = next(
        (p for p in (folder / "Concepts81.txt", folder / "ConceptsList" / "Concepts81.txt") if p.is_file()), None
    )
    if listed is not None:
        return tuple(name for _, name in read_lines(listed))
    labels = _labels_folder(folder)
    assert labels is not None
    return tuple(sorted(path.name[len("Labels_") : -len("_Train.txt")] for path in labels.glob("Labels_*_Train.txt")))


def _list_file(folder: Path, part: str) -> Path:
    for name in (f"{part}Imagelist.txt", f"{part}ImageList.txt"):
        if (folder / "ImageList" / name).is_file():
            return folder / "ImageList" / name
    raise UserError(f"{folder / 'ImageList'} has no {part}Imagelist.txt; unpack NUS-WIDE's image lists there")


def _annotations(folder: Path, part: str, classes: tuple[str, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """(N, L) the labels of a part, from one file per concept with 0 or 1 on each line."""
    labels = _labels_folder(folder)
    assert labels is not None
    columns = []
    for name in classes:
        path = labels / f"Labels_{name}_{part}.txt"
        column = []
        for number, line in read_lines(path):
            if line not in ("0", "1"):
                raise UserError(f"{path} line {number}: {line!r} is neither 0 nor 1")
            column.append(PRESENT if line == "1" else ABSENT)
        columns.append(column)
    if len({len(column) for column in columns}) != 1:
        raise UserError(f"{labels}: the files of the concepts have different lengths; unpack NUS-WIDE again")
    return np.array(columns, np.int8).T
