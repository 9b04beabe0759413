"""PASCAL VOC in its official layout: ImageSets, Annotations, JPEGImages and, optionally, SegmentationClass."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scob.data.images import MAX_PIXELS, ImageFiles, Root, skip_or_raise
from scob.data.readers import match_split, no_such_split
from scob.data.readers.text_lists import class_list, read_lines, unknown_class
from scob.data.split import ObjectBox, ObjectMasks, ReadOptions, Split
from scob.errors import UserError, first_line
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *(
        "diningtable",
        "dog",
        "horse",
        "motorbike",
        "person",
        "pottedplant",
        "sheep",
        "sofa",
        "train",
        "tvmonitor",
    ),
)
EXPECTED_POSITIVES = 1.5
VOID = 255


def home(source: Path) -> Path | None:
    """The folder that contains JPEGImages: `source`, or the only year below it or below its VOCdevkit."""
    folders = [
        folder
        for folder in (source, *sorted(source.glob("VOC2*")), *sorted(source.glob("VOCdevkit/VOC2*")))
        if (folder / "JPEGImages").is_dir() and (folder / "ImageSets").is_dir()
    ]
    if len(folders) > 1 and folders[0] != source:
        years = ", ".join(str(folder) for folder in folders)
        raise UserError(f"{source} contains several years; give one of {years}")
    return folders[0] if folders else None


def recognises(source: Path) -> bool:
    """Whether there is a VOC year here."""
    return source.is_dir() and home(source) is not None


def title(source: Path, options: ReadOptions) -> str:
    """How many classes there are."""
    return f"PASCAL VOC, {len(class_list(_home(source), options) or CLASSES)} classes"


def splits(source: Path) -> tuple[str, ...]:
    """The image lists of Main (or else of Segmentation), except those per class; `read` also takes 'Folder/name'."""
    folder = _home(source)
    for kind in ("Main", "Segmentation"):
        names = {path.stem for path in (folder / "ImageSets" / kind).glob("*.txt")}
        # 'train' is also a class: 'train_train' is a list of that class like 'cat_train', but 'train' is not.
        lists = {name for name in names if name.rpartition("_")[2] not in names or "_" not in name}
        if lists:
            order = {"train": 0, "val": 1, "trainval": 2, "test": 3}
            return tuple(sorted(lists, key=lambda name: (order.get(name, 9), name)))
    return ()


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or for None every image of any split.

    An object marked difficult counts as `options.difficult` says, unless the image has another object of its class.
    """
    folder = _home(source)
    names = splits(source)
    split = None if split is None else match_split(split, names) or split
    lists = [_list_file(folder, source, name, names) for name in (names if split is None else [split])]
    classes = class_list(folder, options) or CLASSES
    images = Root(folder)
    ids: dict[str, str] = {}
    values: list[NDArray[np.int8]] = []
    paths: list[str] = []
    skipped: list[str] = []
    for path in lists:
        for number, line in read_lines(path):
            where = f"{_short(path, folder)} line {number}"
            name = line.split()[0]
            try:
                if name in ids:
                    if split is None:
                        continue  # trainval repeats train and val
                    raise UserError(f"{where}: the image {name!r} is already in {ids[name]}")
                image = images.inside(f"JPEGImages/{name}.jpg", where)
                row = _labels(folder, name, where, classes, options.difficult)
            except UserError as error:
                skip_or_raise(error, options.skip_bad, skipped)
                continue
            ids[name] = where
            paths.append(image)
            values.append(row)
    table = np.stack(values) if values else np.zeros((0, len(classes)), np.int8)
    masks = folder / "SegmentationClass"
    return Split(
        name="all" if split is None else split,
        labels=Labels(classes, tuple(ids), table, "full"),
        images=ImageFiles(tuple(paths), tuple(ids.values())),
        masks=PaletteMasks(tuple(str(masks / f"{i}.png") for i in ids), len(classes)) if masks.is_dir() else None,
        skipped=tuple(skipped),
        expected_positives=EXPECTED_POSITIVES if classes == CLASSES else None,
        boxes=AnnotatedBoxes(folder, tuple(ids), classes),
    )


def _home(source: Path) -> Path:
    folder = home(source)
    if folder is None:
        raise UserError(f"{source} is not in the layout of VOC: it has no JPEGImages and ImageSets")
    return folder


def _list_file(folder: Path, source: Path, split: str, named: tuple[str, ...]) -> Path:
    kind, _, name = split.rpartition("/")
    kinds = [kind] if kind else ["Main", "Segmentation"]
    for each in kinds:
        path = folder / "ImageSets" / each / f"{name}.txt"
        if ".." not in split and path.is_file():
            return path
    raise no_such_split(source, split, named)


def _labels(folder: Path, name: str, where: str, classes: tuple[str, ...], difficult: str) -> NDArray[np.int8]:
    """(L,) the annotated labels of one image."""
    path = folder / "Annotations" / f"{name}.xml"
    tree = _annotation(path, folder, where)
    row = np.full(len(classes), ABSENT, np.int8)
    for thing in tree.iterfind("object"):
        label = (thing.findtext("name") or "").strip()
        if label not in classes:
            raise unknown_class(f"{where}, {_short(path, folder)}", label, classes)
        index = classes.index(label)
        if (thing.findtext("difficult") or "0").strip() != "1" or difficult == "positive":
            row[index] = PRESENT
        elif difficult == "ignore" and row[index] != PRESENT:
            row[index] = UNKNOWN
    return row


def _annotation(path: Path, folder: Path, where: str) -> "ElementTree.ElementTree[ElementTree.Element]":
    try:
        return ElementTree.parse(path)
    except FileNotFoundError:
        raise UserError(f"{where}: there is no annotation {_short(path, folder)}") from None
    except (ElementTree.ParseError, OSError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise UserError(f"{where}: the annotation {_short(path, folder)} cannot be read ({error})") from None


def _short(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder.parent)


@dataclass(frozen=True)
class PaletteMasks:
    """PNG masks: a pixel is the number of its class, from 1; 0 is background and 255 is void."""

    paths: tuple[str, ...]
    classes: int

    def load(self, index: int) -> ObjectMasks | None:
        path = Path(self.paths[index])
        if not path.is_file():
            return None
        try:
            with Image.open(path) as image:
                if image.mode not in ("P", "L"):
                    raise UserError(f"{path}: a mask must be a palette or grey PNG, not {image.mode}")
                if image.width * image.height > MAX_PIXELS:
                    raise UserError(f"{path}: the mask has more than {MAX_PIXELS // 1_000_000} million pixels")
                numbers = np.asarray(image)
        except UserError:
            raise
        except Exception as error:  # a damaged file can make Pillow's decoders raise anything
            raise UserError(f"{path}: the mask is damaged ({first_line(error)})") from error
        classes = [int(n) for n in np.unique(numbers) if n not in (0, VOID)]
        if classes and max(classes) > self.classes:
            raise UserError(f"{path}: the mask has a pixel of class {max(classes)}, but there are {self.classes}")
        return ObjectMasks({n - 1: numbers == n for n in classes}, numbers == VOID)


@dataclass(frozen=True)
class AnnotatedBoxes:
    """The boxes of the XML files, read when asked for, in fractions of the size that the same file names.

    The stored image may have been scaled since. The first pixel is number 1, and a box includes its last pixel.
    """

    folder: Path
    names: tuple[str, ...]
    classes: tuple[str, ...]

    def load(self, index: int) -> tuple[ObjectBox, ...] | None:
        path = self.folder / "Annotations" / f"{self.names[index]}.xml"
        where = _short(path, self.folder)
        tree = _annotation(path, self.folder, where)
        things = tree.findall("object")
        if tree.find("size") is None or any(thing.find("bndbox") is None for thing in things):
            return None
        width, height = (_number(tree, f"size/{side}", where) for side in ("width", "height"))
        if min(width, height) < 1:
            raise UserError(f"{where}: the image cannot have {width:g} x {height:g} pixels; correct its <size>")
        boxes = []
        for thing in things:
            label = (thing.findtext("name") or "").strip()
            if label not in self.classes:
                raise unknown_class(where, label, self.classes)
            x0, y0, x1, y1 = (_number(thing, f"bndbox/{end}", where) for end in ("xmin", "ymin", "xmax", "ymax"))
            corners = ((x0 - 1) / width, (y0 - 1) / height, x1 / width, y1 / height)
            if not (corners[0] < corners[2] and corners[1] < corners[3]):
                raise UserError(f"{where}: the box of a {label} ends before it begins; correct its <bndbox>")
            left, top, right, bottom = (min(1.0, max(0.0, corner)) for corner in corners)
            difficult = (thing.findtext("difficult") or "0").strip() == "1"
            boxes.append(ObjectBox(self.classes.index(label), (left, top, right, bottom), difficult))
        return tuple(boxes)


def _number(node: "ElementTree.Element | ElementTree.ElementTree[ElementTree.Element]", name: str, where: str) -> float:
    text = (node.findtext(name) or "").strip()
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where}: <{name.rpartition('/')[2]}> is {text!r}, not a number")
    return number
