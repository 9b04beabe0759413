"""The embedded data set: scenes drawn by code, with every object's class and visible pixels known.

Frequencies have a long tail; some objects keep company (four in five bicycles, with a person); they hide
each other and stand before clutter. Scene i of a split depends on (seed, split, i) and on nothing else.
"""

import re
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from scob.data.scenes.drawing import FINE, Patch, clip, develop, draw_background, draw_object
from scob.data.scenes.outlines import Part, bar, between, chance, disc, whole
from scob.data.scenes.shapes import SHAPES
from scob.data.split import ArrayImages, ObjectMasks, ReadOptions, Split
from scob.draws import seed_key
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

CLASSES = tuple(SHAPES)
# The second number, with the companions that come by chance, makes four times in five.
COMPANIONS = {
    "bicycle": ("person", 0.72),
    "bird": ("tree", 0.755),
    "cup": ("chair", 0.775),
    "boat": ("fish", 0.785),
}
COUNTS = (0.28, 0.58, 0.8, 0.93, 1.0)  # cumulative: how many classes are asked for, companions not counted
SCALES = (0.1, 0.6)  # longer side of an object as a share of the image's
EXPECTED_POSITIVES = 2.5  # classes an image, over many scenes
SPLITS = ("train", "val")
_LEAST_SIDE, _MOST_SIDE = 32, 1024


@dataclass(frozen=True)
class Scenes:
    """Drawn scenes. Objects do not share visible pixels, so one map holds all their masks.

    `images` (N, H, W, 3); `owners` (N, H, W): 0, or 1 + the place in `objects[i]`, the class ids of scene i.
    """

    images: NDArray[np.uint8]
    owners: NDArray[np.uint8]
    objects: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.images)

    def mask(self, scene: int, place: int) -> NDArray[np.bool_]:
        """The visible pixels (H, W) of one object."""
        return np.asarray(self.owners[scene] == place + 1)

    def values(self) -> NDArray[np.int8]:
        """Full labels (N, L): +1 present, -1 absent."""
        values = np.full((len(self), len(CLASSES)), ABSENT, dtype=np.int8)
        for row, objects in enumerate(self.objects):
            values[row, list(objects)] = PRESENT
        return values


@dataclass(frozen=True)
class SceneMasks:
    """The objects' masks, those of one class merged, for the chosen classes (their column by class id)."""

    scenes: Scenes
    columns: dict[int, int]

    def load(self, index: int) -> ObjectMasks:
        owners = self.scenes.owners[index]
        present: dict[int, NDArray[np.bool_]] = {}
        for place, kind in enumerate(self.scenes.objects[index]):
            if kind in self.columns:
                column, mask = self.columns[kind], self.scenes.mask(index, place)
                present[column] = present[column] | mask if column in present else mask
        return ObjectMasks(present, np.zeros(owners.shape, dtype=np.bool_))


class Canvas:
    """A picture in the making, and whose each pixel is."""

    def __init__(self, pixels: NDArray[np.int16]) -> None:
        self.pixels = pixels
        self.size = pixels.shape[1]
        self.owners = np.zeros(pixels.shape[1:], dtype=np.uint8)
        self.objects: list[int] = []
        self.needed = [0]  # pixels of each owner that must stay visible; 0 is the ground
        self.least = max(4, round(24 * (self.size / 128) ** 2))

    def place(self, patch: Patch, left: int, top: int, kind: int | None) -> bool:
        """Lay an object (no kind: something in the way) unless it or one behind it would hardly be seen."""
        here, there = clip(patch.cover.shape, self.owners.shape, left, top)
        solid = patch.cover[here] * 2 >= FINE * FINE
        area, visible = int((patch.cover * 2 >= FINE * FINE).sum()), int(solid.sum())
        if kind is not None and visible < max(self.least, 0.6 * area):
            return False
        hidden = np.bincount(self.owners[there][solid], minlength=len(self.needed))
        remaining = np.bincount(self.owners.ravel(), minlength=len(self.needed)) - hidden
        if (remaining[1:] < self.needed[1:]).any():
            return False
        patch.over(self.pixels, left, top)
        self.owners[there][solid] = 0 if kind is None else len(self.needed)
        if kind is not None:
            self.objects.append(kind)
            self.needed.append(max(self.least, round(0.4 * visible)))
        return True


def choose_classes(random: Random) -> list[int]:
    """1 to 5 class ids: drawn by long-tailed weights, some of them with their companion."""
    mark = random.random()
    count = 1 + sum(mark >= edge for edge in COUNTS[:-1])
    left = {kind: 1 / (kind + 2.5) for kind in range(len(CLASSES))}
    chosen: list[int] = []
    while len(chosen) < count:
        edges = list(accumulate(left.values()))
        kind = list(left)[bisect(edges, random.random() * edges[-1])]
        chosen.append(kind)
        companion, share = COMPANIONS.get(CLASSES[kind], ("", 0.0))
        if chance(random, share) and len(chosen) < len(COUNTS) and CLASSES.index(companion) in left:
            chosen.append(CLASSES.index(companion))
        left = {kind: weight for kind, weight in left.items() if kind not in chosen}
    return chosen


def draw_scene(key: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], tuple[int, ...]]:
    """One scene: pixels (size, size, 3), owners (size, size), and the class ids of its objects."""
    random = Random(key)
    kinds = choose_classes(random)
    kinds += [kind for kind in kinds if chance(random, 0.15)]  # some come twice
    canvas = Canvas(draw_background(random, size))
    for kind in sorted(kinds, key=lambda _: random.random()):
        _add(random, canvas, kind)
    for _ in range(whole(random, 0, 2)):
        extent = round(between(random, 0.15, 0.5) * size)
        patch = draw_object(random, _obstacle(random), extent, tilt=180)
        canvas.place(patch, whole(random, -extent // 2, size), whole(random, -extent // 2, size), None)
    return develop(random, canvas.pixels), canvas.owners, tuple(canvas.objects)


def _add(random: Random, canvas: Canvas, kind: int) -> None:
    """Put an object where it and the others stay visible; in a crowd, after some tries, leave it out."""
    low, high = SCALES
    for _ in range(6):
        extent = round(low * (high / low) ** (random.random() ** 0.5) * canvas.size)
        patch = draw_object(random, SHAPES[CLASSES[kind]](random), extent)
        height, width = patch.cover.shape
        for _ in range(4):
            left = round(between(random, -0.2 * width, canvas.size - 0.8 * width))
            top = round(between(random, -0.2 * height, canvas.size - 0.8 * height))
            if canvas.place(patch, left, top, kind):
                return


def _obstacle(random: Random) -> list[Part]:
    """Something in the way that is no object: a bar or a blob."""
    if chance(random, 0.6):
        return [(1, bar((-1.0, 0.0), (1.0, 0.0), between(random, 0.08, 0.25)))]
    return [(1, disc(0.0, 0.0, 1.0, between(random, 0.4, 0.8)))]


def draw(count: int, size: int, seed: int, split: str) -> Scenes:
    """The first `count` scenes of a split."""
    images = np.empty((count, size, size, 3), dtype=np.uint8)
    owners = np.empty((count, size, size), dtype=np.uint8)
    objects = []
    for row in range(count):
        images[row], owners[row], kinds = draw_scene(seed_key(seed, split, row, "scene"), size)
        objects.append(kinds)
    return Scenes(images, owners, tuple(objects))


def parse(source: str) -> tuple[int, int]:
    """How many training scenes of which side `scenes` or `scenes:COUNTxSIZE` asks for."""
    if source == "scenes":
        return 2000, 128
    found = re.fullmatch(r"scenes:([0-9]{1,7})x([0-9]{1,4})", source)
    if found is None:
        raise UserError(f"{source!r} is no source of scenes: write 'scenes' or, for example, 'scenes:500x96'")
    count, size = int(found[1]), int(found[2])
    if count < 2 or not _LEAST_SIDE <= size <= _MOST_SIDE:
        raise UserError(f"{source!r} asks for too few scenes or a side outside {_LEAST_SIDE}-{_MOST_SIDE} pixels")
    return count, size


def read(source: Path | str, split: str | None, options: ReadOptions) -> Split:
    """Draw a split: `train` holds COUNT scenes, `val` half as many; None is both, train first."""
    count, size = parse(str(source))
    if split is not None and split not in SPLITS:
        raise UserError(f"the scenes have no split {split!r}: there are {' and '.join(SPLITS)}")
    names = CLASSES if options.classes is None else options.classes
    for name in names:
        if name not in CLASSES:
            raise UserError(f"the scenes have no class {name!r}: there are {', '.join(CLASSES)}")
    counts = {"train": count, "val": count // 2}
    wanted = SPLITS if split is None else (split,)
    drawn = [draw(counts[name], size, options.seed, name) for name in wanted]
    scenes = drawn[0] if len(drawn) == 1 else _joined(drawn)
    images = tuple(f"{name}-{row:06d}" for name in wanted for row in range(counts[name]))
    values = scenes.values()[:, [CLASSES.index(name) for name in names]]
    columns = {CLASSES.index(name): column for column, name in enumerate(names)}
    return Split(
        name=split or "all",
        labels=Labels(tuple(names), images, values, "full"),
        images=ArrayImages(scenes.images, "scene"),
        masks=SceneMasks(scenes, columns),
        expected_positives=EXPECTED_POSITIVES if names == CLASSES else None,
    )


def _joined(drawn: list[Scenes]) -> Scenes:
    return Scenes(
        np.concatenate([scenes.images for scenes in drawn]),
        np.concatenate([scenes.owners for scenes in drawn]),
        tuple(objects for scenes in drawn for objects in scenes.objects),
    )
