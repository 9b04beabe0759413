"""CUB-200-2011 as 312 binary attributes, with the official train and test split.

For each attribute of each image a person answered present or absent and said how certain they were (not visible,
guessing, probably, definitely). We take the answer and ignore the certainty, as other papers do; that gives the 31.4
positives per image which the paper uses for k. An attribute that is 'not visible' therefore counts as absent.
"""

import os
from pathlib import Path

import numpy as np

from scob.data.images import ImageFiles, Root, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.text_lists import read_lines
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.files import whole_number
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels

EXPECTED_POSITIVES = 31.4
ATTRIBUTE_COUNT = 312
SPLITS = ("train", "test")
DIGITS = 18  # a longer number is a mistake


def home(source: Path) -> Path | None:
    """The folder that contains images.txt: `source` or the CUB_200_2011 below it."""
    for folder in (source, source / "CUB_200_2011"):
        if (folder / "images.txt").is_file() and (folder / "attributes").is_dir():
            return folder
    return None


def recognises(source: Path) -> bool:
    """Whether this is CUB-200-2011."""
    return source.is_dir() and home(source) is not None


def title(source: Path, options: ReadOptions) -> str:
    """The attributes of the birds are the classes."""
    return f"CUB-200-2011, {ATTRIBUTE_COUNT} classes (attributes)"


def splits(source: Path) -> tuple[str, ...]:
    """Always train and test."""
    return SPLITS


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None. An attribute without an answer is unknown."""
    folder = home(source)
    if folder is None:
        raise UserError(f"{source} is not in the layout of CUB-200-2011: it has no images.txt and attributes")
    split = None if split is None else find_split(source, split, SPLITS)
    classes = _attributes(folder)
    training = {image: flag for image, flag, _ in _pairs(folder / "train_test_split.txt")}
    root = Root(folder)
    rows: dict[int, int] = {}
    known: set[int] = set()
    ids: list[str] = []
    paths: list[str] = []
    notes: list[str] = []
    skipped: list[str] = []
    for image, name, number in _named(folder / "images.txt"):
        where = f"images.txt line {number}"
        known.add(image)
        try:
            if image in rows:
                raise UserError(f"{where}: the image {image} is listed twice")
            if split is not None:
                if image not in training:
                    raise UserError(f"{where}: train_test_split.txt does not say where image {image} belongs")
                if (training[image] == 1) != (split == "train"):
                    continue
            path = root.inside(f"images/{name}", where)
        except UserError as error:
            skip_or_raise(error, options.skip_bad, skipped)
            continue
        rows[image] = len(ids)
        ids.append(name)
        paths.append(path)
        notes.append(where)
    values = np.full((len(ids), len(classes)), UNKNOWN, np.int8)
    for image, attribute, present, number in _answers(folder):
        where = f"attributes/image_attribute_labels.txt line {number}"
        if not 1 <= attribute <= len(classes):
            unknown = UserError(f"{where}: there is no attribute {attribute}; there are {len(classes)}")
            skip_or_raise(unknown, options.skip_bad, skipped)
        elif image in rows:
            values[rows[image], attribute - 1] = PRESENT if present else ABSENT
        elif image not in known:
            skip_or_raise(UserError(f"{where}: there is no image {image}"), options.skip_bad, skipped)
    return Split(
        name=split or "all",
        labels=Labels(classes, tuple(ids), values, "full"),
        images=ImageFiles(tuple(paths), tuple(notes)),
        skipped=tuple(skipped),
        expected_positives=EXPECTED_POSITIVES if len(classes) == ATTRIBUTE_COUNT else None,
    )


def _attributes(folder: Path) -> tuple[str, ...]:
    """The names of the attributes; the official archive has their list beside the folder, not in it."""
    for path in (
        folder / "attributes" / "attributes.txt",
        folder / "attributes.txt",
        folder.parent / "attributes.txt",
    ):
        if path.is_file():
            return tuple(name for _, name, _ in _named(path))
    raise UserError(f"there is no attributes.txt in {folder / 'attributes'}, {folder} or {folder.parent}")


def _named(path: Path) -> list[tuple[int, str, int]]:
    """(number, name, line) of a file of 'number name' lines."""
    entries = []
    for line, text in read_lines(path):
        digits, _, name = text.partition(" ")
        number = whole_number(digits, DIGITS)
        if number is None or not name:
            raise UserError(f"{os.path.basename(path)} line {line}: {text!r} is not a number and a name")  # noqa: PTH119
        entries.append((number, name.strip(), line))
    return entries


def _pairs(path: Path) -> list[tuple[int, int, int]]:
    """(number, number, line) of a file with two numbers per line."""
    entries = []
    for line, text in read_lines(path):
        numbers = [whole_number(word, DIGITS) for word in text.split()]
        first, second = numbers if len(numbers) == 2 else (None, None)
        if first is None or second is None:
            raise UserError(f"{path.name} line {line}: {text!r} is not two numbers")
        entries.append((first, second, line))
    return entries


def _answers(folder: Path) -> list[tuple[int, int, bool, int]]:
    """(image, attribute, present, line); some lines of the official file have extra fields after these."""
    path = folder / "attributes" / "image_attribute_labels.txt"
    entries = []
    for line, text in read_lines(path):
        words = text.split(None, 3)
        image, attribute = (whole_number(word, DIGITS) for word in words[:2]) if len(words) > 2 else (None, None)
        if image is None or attribute is None or words[2] not in ("0", "1"):
            raise UserError(f"attributes/{path.name} line {line}: {text!r} is not 'image attribute 0|1 ...'")
        entries.append((image, attribute, words[2] == "1", line))
    return entries
