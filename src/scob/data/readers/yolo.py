"""YOLO: a folder of images beside a folder of labels, one text file per image, `CLASS x y width height` per object.

The class names come from data.yaml (`names`), or from classes.txt or obj.names; otherwise classes are called by their
numbers. An image without a text file shows none of the classes, as usual.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob.config import parse_yaml
from scob.data.images import image_names, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.folder import SPLIT_NAMES
from scob.data.readers.named_images import NamedImages
from scob.data.readers.row_splits import Gathered, Row
from scob.data.readers.text_lists import class_list, read_lines, read_text
from scob.data.split import ObjectBox, ReadOptions, Split
from scob.errors import UserError, first_line
from scob.files import whole_number
from scob.labels import ABSENT, PRESENT

Objects = list[tuple[int, list[float]]]
MOST_UNNAMED = 10_000  # classes without names; a higher number is a mistake, and would take the memory of so many


def recognises(source: Path) -> bool:
    """Whether there is a folder of images beside one of labels, with text files in it."""
    return source.is_dir() and bool(_pairs(source))


def title(source: Path, options: ReadOptions) -> str:
    """How many classes there are."""
    classes = _classes(source, options)
    return f"YOLO labels, {len(classes)} classes" if classes else "YOLO labels, classes called by their numbers"


def splits(source: Path) -> tuple[str, ...]:
    """The folders named like splits; if there are none, all is 'train'."""
    return tuple(_pairs(source))


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None. A class without an object in an image is absent from it."""
    pairs = _pairs(source)
    if not pairs:
        raise UserError(f"{source} is not a YOLO data set: it has no folder of images beside one of labels")
    wanted = list(pairs) if split is None else [find_split(source, split, tuple(pairs))]
    skipped: list[str] = []
    objects: dict[str, Objects] = {}
    home: dict[str, tuple[str, str]] = {}
    for name, (images, labels) in pairs.items():  # of all splits: without a list, the classes are those of all
        for image in image_names(images):
            text = labels / Path(image).with_suffix(".txt")
            shown = os.path.relpath(images / image, source).replace(os.sep, "/")
            try:
                objects[shown] = _objects(text, os.path.relpath(text, source)) if text.is_file() else []
            except UserError as error:
                skip_or_raise(error, options.skip_bad, skipped)
                continue
            home[shown] = name, os.path.relpath(text, source)
    numbers = (number for each in objects.values() for number, _ in each)
    highest = max((number for number in numbers if number < MOST_UNNAMED), default=-1)
    classes = _classes(source, options) or tuple(str(number) for number in range(highest + 1))
    gathered = Gathered(source, NamedImages(source), classes or None, options.skip_bad, skipped)
    gathered.add_all(
        Row(home[image][1], image, _states(each, classes), home[image][0], True)
        for image, each in objects.items()
        if home[image][0] in wanted and _in_range(each, classes, home[image][1], options, skipped)
    )
    return gathered.split(split, tuple(pairs), lambda images, _: TextBoxes(tuple(objects[image] for image in images)))


def _in_range(objects: Objects, classes: tuple[str, ...], where: str, options: ReadOptions, skipped: list[str]) -> bool:
    for number, _ in objects:
        if number >= len(classes):
            known = f"only {len(classes)} (0 to {len(classes) - 1})" if classes else "and no file names the classes"
            error = UserError(f"{where}: there is no class {number}, {known}; list all classes in data.yaml")
            skip_or_raise(error, options.skip_bad, skipped)
            return False
    return True


def _states(objects: Objects, classes: tuple[str, ...]) -> dict[str, int]:
    present = {classes[number] for number, _ in objects}
    return {name: PRESENT if name in present else ABSENT for name in classes}


def _pairs(source: Path) -> dict[str, tuple[Path, Path]]:
    """The folders of images and of labels of each split."""
    pairs: dict[str, tuple[Path, Path]] = {}
    for name in SPLIT_NAMES:
        for images, labels in (
            (source / "images" / name, source / "labels" / name),
            (source / name / "images", source / name / "labels"),
        ):
            if name not in pairs and images.is_dir() and _has_texts(labels):
                pairs[name] = images, labels
    if not pairs and (source / "images").is_dir() and _has_texts(source / "labels"):
        pairs["train"] = source / "images", source / "labels"
    return pairs


def _has_texts(labels: Path) -> bool:
    return labels.is_dir() and any(labels.rglob("*.txt"))


def _classes(source: Path, options: ReadOptions) -> tuple[str, ...]:
    """The names of the classes; none if no file lists them."""
    named = class_list(source, options)
    if named is not None:
        return named
    for path in (source / "data.yaml", source / "data.yml", source / "dataset.yaml"):
        if path.is_file():
            return _yaml_names(path)
    names = source / "obj.names"
    return tuple(name for _, name in read_lines(names)) if names.is_file() else ()


def _yaml_names(path: Path) -> tuple[str, ...]:
    import yaml

    try:
        names: Any = parse_yaml(read_text(path)).get("names", [])
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError) as error:
        raise UserError(f"{path} is not a YOLO settings file: {first_line(error)}") from None
    if isinstance(names, dict):
        numbered = {whole_number(str(key)): name for key, name in names.items()}
        names = [numbered[number] for number in range(len(names))] if set(numbered) == set(range(len(names))) else None
    if not isinstance(names, list) or len({str(name) for name in names}) != len(names):
        raise UserError(f"{path}: 'names' must list the classes, each once, or number them from 0")
    return tuple(str(name) for name in names)


def _objects(path: Path, shown: str) -> Objects:
    """(class number, coordinates in fractions) of every object: x, y, width, height, or corners of a shape."""
    objects: Objects = []
    for number, line in read_lines(path):
        words = line.split()
        kind = whole_number(words[0])
        try:
            numbers = [float(word) for word in words[1:]]
        except ValueError:
            numbers = []
        if kind is None or len(numbers) < 4 or not all(math.isfinite(value) for value in numbers):
            raise UserError(f"{shown} line {number}: {line!r} is not 'CLASS x y width height'")
        objects.append((kind, numbers))
    return objects


@dataclass(frozen=True)
class TextBoxes:
    """The boxes of the text files, in the order of a split's images."""

    objects: tuple[Objects, ...]

    def load(self, index: int) -> tuple[ObjectBox, ...] | None:
        boxes = []
        for kind, numbers in self.objects[index]:
            if len(numbers) in (4, 5):  # a fifth number is a confidence
                x, y, width, height = numbers[:4]
                ends = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            else:
                ends = (min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2]))
            left, top, right, bottom = (min(1.0, max(0.0, end)) for end in ends)
            boxes.append(ObjectBox(kind, (left, top, right, bottom)))
        return tuple(boxes)
