"""COCO annotations: those of 2014 and 2017, and others wherever `coco_files.py` finds them."""

import contextlib
import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scob.data.images import MAX_PIXELS, ImageFiles, Root, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.coco_files import CocoFile, coco_files, count_categories, without_umbrella
from scob.data.readers.text_lists import read_text
from scob.data.split import ObjectBox, ObjectMasks, ReadOptions, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

EXPECTED_POSITIVES = 3.0
CLASS_COUNT = 80
MAX_SIDE = 65_535  # pixels, what a JPEG can have


def recognises(source: Path) -> bool:
    """Whether there are COCO annotation files here, or this is one."""
    return bool(coco_files(source))


def title(source: Path, options: ReadOptions) -> str:
    """How many classes the first annotation file lists."""
    file = next(iter(_required_files(source).values()))
    return f"COCO, {count_categories(file.path)} classes"


def splits(source: Path) -> tuple[str, ...]:
    """'train2014', 'val2014', ..."""
    names = list(_required_files(source))
    return tuple(sorted(names, key=lambda name: (not name.startswith("train"), name)))


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, images without a label included, or all images for None. A crowd counts as present, as usual."""
    files = _required_files(source)
    names = sorted(files) if split is None else [find_split(source, split, splits(source))]
    parts = [_read_one(name, files[name], options) for name in names]
    if len({part.labels.classes for part in parts}) > 1:
        raise UserError(f"{source}: {' and '.join(files[n].path.name for n in names)} list different categories")
    return parts[0] if len(parts) == 1 else _join(parts)


def _required_files(source: Path) -> dict[str, CocoFile]:
    files = coco_files(source)
    if not files:
        raise UserError(
            f"{source} has no COCO annotations: a JSON file with lists of images, annotations and categories, such as "
            "annotations/instances_train.json"
        )
    return files


def _read_one(name: str, file: CocoFile, options: ReadOptions) -> Split:
    coco = _load(file.path)
    shown = os.path.relpath(file.path, file.home)
    root = Root(file.home)
    try:
        categories = sorted(coco.dataset["categories"], key=lambda c: int(c["id"]))
        categories = without_umbrella(categories, coco.dataset["annotations"])
        classes = tuple(str(c["name"]) for c in categories)
        column = {int(c["id"]): i for i, c in enumerate(categories)}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{shown}: the list of categories cannot be read ({error!r})") from error
    if options.classes is not None and options.classes != classes:
        raise UserError(f"{shown}: its categories are not the classes asked for; leave the classes out, or list these")
    rows: dict[int, int] = {}
    ids: list[str] = []
    paths: list[str] = []
    notes: list[str] = []
    skipped: list[str] = []
    dropped: set[str] = set()
    for number, entry in enumerate(coco.dataset["images"], 1):
        where = f"{shown} image {number}"
        try:
            identity, file_name = _entry(entry, where)
            if identity in rows:
                raise UserError(f"{where}: the id {identity} already belongs to {notes[rows[identity]]}")
            image = root.inside(file.relative(name, file_name), where)
        except UserError as error:
            skip_or_raise(error, options.skip_bad, skipped)
            if isinstance(entry, dict):
                dropped.add(str(entry.get("id", -1)))
            continue
        rows[identity] = len(ids)
        ids.append(f"{name}/{file_name}")
        paths.append(image)
        notes.append(where)
    values = np.full((len(ids), len(classes)), ABSENT, np.int8)
    for number, mark in enumerate(coco.dataset["annotations"], 1):
        where = f"{shown} annotation {number}"
        try:
            image_id, category = int(mark["image_id"]), int(mark["category_id"])
        except (KeyError, TypeError, ValueError, OverflowError):
            skip_or_raise(UserError(f"{where}: it has no image_id or no category_id"), options.skip_bad, skipped)
            continue
        if category not in column:
            unknown = UserError(f"{where}: the category {category} is not in the list of {len(classes)} categories")
            skip_or_raise(unknown, options.skip_bad, skipped)
        elif image_id in rows:
            values[rows[image_id], column[category]] = PRESENT
        elif str(image_id) not in dropped:
            skip_or_raise(UserError(f"{where}: there is no image with id {image_id}"), options.skip_bad, skipped)
    marks = len(coco.dataset["annotations"])
    segmented = sum(1 for mark in coco.dataset["annotations"] if mark.get("segmentation"))
    boxed = not marks or any(mark.get("bbox") for mark in coco.dataset["annotations"])
    return Split(
        name=name,
        labels=Labels(classes, tuple(ids), values, "full"),
        images=ImageFiles(tuple(paths), tuple(notes)),
        masks=InstanceMasks(coco, tuple(rows), column) if segmented else None,
        skipped=tuple(skipped),
        expected_positives=EXPECTED_POSITIVES if len(classes) == CLASS_COUNT else None,
        remarks=(f"{segmented:,} of {marks:,} annotated objects have a segmentation",) if 0 < segmented < marks else (),
        boxes=InstanceBoxes(coco, tuple(rows), column) if boxed else None,
    )


def _load(path: Path) -> Any:
    """The file as a pycocotools index, without what pycocotools prints."""
    from pycocotools.coco import COCO

    try:
        dataset = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    for part in ("images", "categories", "annotations"):
        if not isinstance(dataset, dict) or not isinstance(dataset.get(part), list):
            raise UserError(f"{path} is not a COCO instances file: it has no list of {part}")
    if not dataset["categories"]:
        raise UserError(f"{path}: its list of categories is empty; list the classes there, with an id and a name each")
    coco = COCO()
    coco.dataset = dataset
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            coco.createIndex()
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is not a COCO instances file: an entry has no {error}") from error
    return coco


def _entry(entry: Any, where: str) -> tuple[int, str]:
    try:
        return int(entry["id"]), str(entry["file_name"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"{where}: it has no id or no file_name") from None


@dataclass(frozen=True)
class InstanceMasks:
    """Instance masks, merged per class; no pixel is void. An image whose objects all lack one has none."""

    coco: Any = field(repr=False)
    ids: tuple[int, ...]
    column: dict[int, int]

    def load(self, index: int) -> ObjectMasks | None:
        merged: dict[int, NDArray[np.bool_]] = {}
        try:
            entry = self.coco.imgs[self.ids[index]]
            height, width = (int(entry[side]) for side in ("height", "width"))
            if not 0 < height * width <= MAX_PIXELS or not 1 <= min(height, width) <= max(height, width) <= MAX_SIDE:
                raise ValueError(f"an image of {height} x {width} pixels")  # before memory is allocated for it
            marks = self.coco.imgToAnns.get(self.ids[index], [])
            outlined = [mark for mark in marks if mark.get("segmentation")]
            if marks and not outlined:
                return None
            # The mask of a class would be incomplete if one of its objects had no outline.
            partly = {int(mark["category_id"]) for mark in marks if not mark.get("segmentation")}
            for mark in outlined:
                if int(mark["category_id"]) in partly:
                    continue
                shape = mark["segmentation"]
                if isinstance(shape, dict) and list(shape["size"]) != [height, width]:
                    raise ValueError(f"a mask of {shape['size']} on an image of {height} x {width}")
                if isinstance(shape, list):
                    _check_outlines(shape, max(height, width))
                mask = self.coco.annToMask(mark).astype(np.bool_)
                kind = self.column[int(mark["category_id"])]
                merged[kind] = merged[kind] | mask if kind in merged else mask
            void = np.zeros((height, width), np.bool_)
        except Exception as error:  # a damaged mask can make pycocotools raise anything
            raise UserError(f"the masks of COCO image {self.ids[index]} cannot be read ({error!r})") from error
        return ObjectMasks(merged, void)


@dataclass(frozen=True)
class InstanceBoxes:
    """The boxes of the annotations. A crowd counts as difficult: its box is around many objects."""

    coco: Any = field(repr=False)
    ids: tuple[int, ...]
    column: dict[int, int]

    def load(self, index: int) -> tuple[ObjectBox, ...] | None:
        try:
            entry = self.coco.imgs[self.ids[index]]
            marks = self.coco.imgToAnns.get(self.ids[index], [])
            if not all(mark.get("bbox") for mark in marks):
                return None
            boxes = []
            for mark in marks:
                x, y, w, h = (float(number) for number in mark["bbox"])
                width, height = float(entry["width"]), float(entry["height"])
                ends = np.array([x / width, y / height, (x + w) / width, (y + h) / height])
                if not (np.isfinite(ends).all() and w > 0 and h > 0):
                    raise ValueError(f"the box {mark['bbox']}")
                left, top, right, bottom = ends.clip(0, 1).tolist()
                kind = self.column[int(mark["category_id"])]
                boxes.append(ObjectBox(kind, (left, top, right, bottom), bool(mark.get("iscrowd"))))
        except Exception as error:  # an entry may be anything that JSON can hold
            raise UserError(f"the boxes of COCO image {self.ids[index]} cannot be read ({error!r})") from error
        return tuple(boxes)


def _check_outlines(outlines: list[Any], side: int) -> None:
    """Refuse polygons far outside the image: pycocotools allocates memory for every pixel between two corners."""
    for outline in outlines:
        corners = np.asarray(outline, np.float64)
        if corners.ndim != 1 or not (np.abs(corners) <= 2 * side).all():
            raise ValueError(f"an outline far outside an image of side {side}")


@dataclass(frozen=True)
class JoinedMasks:
    """The masks of several splits, one after the other."""

    parts: tuple[Split, ...]

    def load(self, index: int) -> ObjectMasks | None:
        for part in self.parts:
            if index < len(part):
                return part.masks.load(index) if part.masks is not None else None
            index -= len(part)
        raise IndexError(index)


@dataclass(frozen=True)
class JoinedBoxes:
    """The boxes of several splits, one after the other."""

    parts: tuple[Split, ...]

    def load(self, index: int) -> tuple[ObjectBox, ...] | None:
        for part in self.parts:
            if index < len(part):
                return part.boxes.load(index) if part.boxes is not None else None
            index -= len(part)
        raise IndexError(index)


def _join(parts: list[Split]) -> Split:
    labels = Labels(
        parts[0].labels.classes,
        tuple(name for part in parts for name in part.labels.images),
        np.concatenate([part.labels.values for part in parts]),
        "full",
    )
    files = [part.images for part in parts if isinstance(part.images, ImageFiles)]
    return Split(
        name="all",
        labels=labels,
        images=ImageFiles(tuple(p for f in files for p in f.paths), tuple(n for f in files for n in f.notes)),
        masks=JoinedMasks(tuple(parts)) if any(part.masks is not None for part in parts) else None,
        boxes=JoinedBoxes(tuple(parts)) if any(part.boxes is not None for part in parts) else None,
        skipped=tuple(s for part in parts for s in part.skipped),
        expected_positives=parts[0].expected_positives,
        remarks=tuple(f"{part.name}: {remark}" for part in parts for remark in part.remarks),
    )
