"""The embedded data set: scenes drawn by code, with the class and the visible pixels of every object.

Class frequencies have a long tail, and some classes occur together (four in five bicycles come with a person). Objects
hide each other in front of a cluttered background. Scene i of a split depends only on (seed, split, i).
"""

from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from random import Random

import numpy as np
from numpy.typing import NDArray

from scob.data.scenes.drawing import FINE, Patch, clip, develop, draw_background, draw_object
from scob.data.scenes.outlines import Part, bar, between, chance, disc, whole
from scob.data.scenes.shapes import SHAPES
from scob.draws import seed_key
from scob.labels import ABSENT, PRESENT

CLASSES = tuple(SHAPES)
# Class: its companion and how often it is added. With those drawn anyway, four in five have their companion.
COMPANIONS = {
    "bicycle": ("person", 0.72),
    "bird": ("tree", 0.755),
    "cup": ("chair", 0.775),
    "boat": ("fish", 0.785),
}
COUNTS = (0.28, 0.58, 0.8, 0.93, 1.0)  # cumulative shares of scenes with 1 to 5 classes, before companions
SCALES = (0.1, 0.6)  # longer side of an object, as a share of the image's side
EXPECTED_POSITIVES = 2.5  # mean number of classes per scene


@dataclass(frozen=True)
class Scenes:
    """Drawn scenes. No pixel shows two objects, so one map per scene holds all their masks.

    `images` (N, H, W, 3); `objects[i]`: the class ids of the objects in scene i; `owners` (N, H, W): 0 for the
    background, or 1 + the index in `objects[i]` of the object that the pixel shows.
    """

    images: NDArray[np.uint8]
    owners: NDArray[np.uint8]
    objects: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.images)

    def mask(self, scene: int, index: int) -> NDArray[np.bool_]:
        """The visible pixels (H, W) of object `index` of a scene."""
        return np.asarray(self.owners[scene] == index + 1)

    def values(self) -> NDArray[np.int8]:
        """Full labels (N, L): +1 present, -1 absent."""
        values = np.full((len(self), len(CLASSES)), ABSENT, dtype=np.int8)
        for row, objects in enumerate(self.objects):
            values[row, list(objects)] = PRESENT
        return values


class Canvas:
    """A scene while it is drawn: its pixels, and which object each of them shows."""

    def __init__(self, pixels: NDArray[np.int16]) -> None:
        self.pixels = pixels
        self.size = pixels.shape[1]
        self.owners = np.zeros(pixels.shape[1:], dtype=np.uint8)
        self.objects: list[int] = []
        self.needed = [0]  # how many pixels of each owner must stay visible; 0 is the background
        self.least = max(4, round(24 * (self.size / 128) ** 2))

    def place(self, patch: Patch, left: int, top: int, kind: int | None) -> bool:
        """Draw an object (kind None: an obstacle), unless it or an object behind it would be mostly hidden."""
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
    """1 to 5 class ids, drawn with long-tailed weights; some bring their companion."""
    share_drawn = random.random()
    count = 1 + sum(share_drawn >= edge for edge in COUNTS[:-1])
    weights = {kind: 1 / (kind + 2.5) for kind in range(len(CLASSES))}
    kinds: list[int] = []
    while len(kinds) < count:
        edges = list(accumulate(weights.values()))
        kind = list(weights)[bisect(edges, random.random() * edges[-1])]
        kinds.append(kind)
        companion, share = COMPANIONS.get(CLASSES[kind], ("", 0.0))
        if chance(random, share) and len(kinds) < len(COUNTS) and CLASSES.index(companion) in weights:
            kinds.append(CLASSES.index(companion))
        weights = {kind: weight for kind, weight in weights.items() if kind not in kinds}
    return kinds


def draw_scene(key: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], tuple[int, ...]]:
    """One scene: pixels (size, size, 3), owners (size, size), and the class ids of its objects."""
    random = Random(key)
    kinds = choose_classes(random)
    kinds += [kind for kind in kinds if chance(random, 0.15)]  # some are drawn twice
    canvas = Canvas(draw_background(random, size))
    for kind in sorted(kinds, key=lambda _: random.random()):
        _add(random, canvas, kind)
    for _ in range(whole(random, 0, 2)):
        extent = round(between(random, 0.15, 0.5) * size)
        patch = draw_object(random, _obstacle(random), extent, tilt=180)
        canvas.place(patch, whole(random, -extent // 2, size), whole(random, -extent // 2, size), None)
    return develop(random, canvas.pixels), canvas.owners, tuple(canvas.objects)


def _add(random: Random, canvas: Canvas, kind: int) -> None:
    """Draw an object where it and the others stay visible; if no place is found after some tries, leave it out."""
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
    """A bar or a blob that belongs to no class and only hides things."""
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
