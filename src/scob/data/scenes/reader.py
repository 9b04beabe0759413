"""The reader of 'scenes' and 'scenes:COUNTxSIZE': it draws the scenes and returns them as a split."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.readers import find_split
from scob.data.scenes.composition import CLASSES, EXPECTED_POSITIVES, Scenes, draw
from scob.data.split import ArrayImages, ObjectBox, ObjectMasks, ReadOptions, Split
from scob.errors import UserError
from scob.labels import Labels

SPLITS = ("train", "val")
DEFAULT_COUNT, DEFAULT_SIDE = 2000, 128
MIN_SIDE, MAX_SIDE = 32, 1024


def recognises(source: Path) -> bool:
    """Never true of files: `infer_format` recognises the scenes by their name."""
    return False


def title(source: Path, options: ReadOptions) -> str:
    """How many kinds of shapes are drawn."""
    return f"the embedded drawings, {len(options.classes or CLASSES)} classes"


def splits(source: Path) -> tuple[str, ...]:
    """Always train and val."""
    return SPLITS


def parse(source: str) -> tuple[int, int]:
    """How many training scenes 'scenes' or 'scenes:COUNTxSIZE' asks for, and their side in pixels."""
    if source == "scenes":
        return DEFAULT_COUNT, DEFAULT_SIDE
    match = re.fullmatch(r"scenes:([0-9]{1,7})x([0-9]{1,4})", source)
    if match is None:
        raise UserError(f"{source!r} is not a source of scenes: write 'scenes' or, for example, 'scenes:500x96'")
    count, side = int(match[1]), int(match[2])
    if count < 2 or not MIN_SIDE <= side <= MAX_SIDE:
        raise UserError(
            f"{source!r} asks for too few scenes or for a side outside {MIN_SIDE}-{MAX_SIDE} pixels; "
            "write, for example, 'scenes:500x96'"
        )
    return count, side


def read(source: Path | str, split: str | None, options: ReadOptions) -> Split:
    """Draw a split: `train` has COUNT scenes, `val` half as many; None is both, train first."""
    count, side = parse(str(source))
    split = None if split is None else find_split(source, split, SPLITS)
    classes = CLASSES if options.classes is None else options.classes
    for name in classes:
        if name not in CLASSES:
            raise UserError(f"the scenes have no class {name!r}; their classes are {', '.join(CLASSES)}")
    counts = {"train": count, "val": count // 2}
    names = SPLITS if split is None else (split,)
    drawn = [draw(counts[name], side, options.seed, name) for name in names]
    scenes = drawn[0] if len(drawn) == 1 else _joined(drawn)
    images = tuple(f"{name}-{row:06d}" for name in names for row in range(counts[name]))
    values = scenes.values()[:, [CLASSES.index(name) for name in classes]]
    columns = {CLASSES.index(name): column for column, name in enumerate(classes)}
    return Split(
        name=split or "all",
        labels=Labels(tuple(classes), images, values, "full"),
        images=ArrayImages(scenes.images, "scene"),
        masks=SceneMasks(scenes, columns),
        expected_positives=EXPECTED_POSITIVES if classes == CLASSES else None,
        boxes=SceneBoxes(scenes, columns),
    )


@dataclass(frozen=True)
class SceneMasks:
    """One mask per class of a scene, for the classes in `columns`: class id -> column of the labels."""

    scenes: Scenes
    columns: dict[int, int]

    def load(self, index: int) -> ObjectMasks:
        present: dict[int, NDArray[np.bool_]] = {}
        for number, kind in enumerate(self.scenes.objects[index]):
            if kind in self.columns:
                column, mask = self.columns[kind], self.scenes.mask(index, number)
                present[column] = present[column] | mask if column in present else mask
        return ObjectMasks(present, np.zeros(self.scenes.owners[index].shape, dtype=np.bool_))


@dataclass(frozen=True)
class SceneBoxes:
    """The box around the visible pixels of each object of a scene, for the classes in `columns`."""

    scenes: Scenes
    columns: dict[int, int]

    def load(self, index: int) -> tuple[ObjectBox, ...]:
        boxes = []
        for number, kind in enumerate(self.scenes.objects[index]):
            if kind in self.columns:
                rows, columns = np.nonzero(self.scenes.mask(index, number))
                height, width = self.scenes.owners[index].shape
                left, right = float(columns.min() / width), float((columns.max() + 1) / width)
                top, bottom = float(rows.min() / height), float((rows.max() + 1) / height)
                boxes.append(ObjectBox(self.columns[kind], (left, top, right, bottom)))
        return tuple(boxes)


def _joined(drawn: list[Scenes]) -> Scenes:
    return Scenes(
        np.concatenate([scenes.images for scenes in drawn]),
        np.concatenate([scenes.owners for scenes in drawn]),
        tuple(objects for scenes in drawn for objects in scenes.objects),
    )
