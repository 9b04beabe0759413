"""From outlines to pixels: random colours and textures, drawn at twice the resolution and averaged.

Everything after the outlines is integer arithmetic, so that the same seed gives the same bytes.
"""

import colorsys
import math
from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from scob.data.scenes.outlines import Part, bar, between, box, chance, disc, towards, whole
from scob.draws import mix, seed_key

FINE = 2  # subpixels per pixel and side; `paint` sums FINE * FINE of them
TILE = 256
OUTLINE = 5
TEXTURES = ("plain", "cloud", "grain", "stripes", "checks", "dots", "bricks", "waves")


@dataclass(frozen=True)
class Patch:
    """Painted pixels, not yet averaged: `colour` (3, h, w) is the sum over `cover` (h, w), 0 to 4 subpixels."""

    colour: NDArray[np.int16]
    cover: NDArray[np.int16]

    def over(self, canvas: NDArray[np.int16], left: int, top: int) -> None:
        """Draw the patch on `canvas` (3, H, W), whose edges may cut it off."""
        here, there = clip(self.cover.shape, canvas.shape[1:], left, top)
        behind = canvas[:, *there] * (FINE * FINE - self.cover[here])
        canvas[:, *there] = (behind + self.colour[:, *here]) // (FINE * FINE)


def clip(
    patch: tuple[int, ...], canvas: tuple[int, ...], left: int, top: int
) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The visible part of a patch at (left, top): its slices of the patch and of the canvas."""
    x0, y0 = max(left, 0), max(top, 0)
    x1, y1 = max(min(left + patch[1], canvas[1]), x0), max(min(top + patch[0], canvas[0]), y0)
    here = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    return here, (slice(y0, y1), slice(x0, x1))


@cache
def textures() -> dict[str, NDArray[np.int8]]:
    """For each name in TEXTURES, (variants, 2 * TILE, 2 * TILE) in -127..127: each tile twice in both directions."""
    y, x = np.mgrid[0:TILE, 0:TILE]
    bank: dict[str, list[NDArray[np.float64]]] = {name: [] for name in TEXTURES}
    bank["plain"].append(np.zeros((TILE, TILE)))
    for cells in (16, 32, 64):
        bank["cloud"].append(_noise(cells) * 2)
    for cells in (128, 256):
        bank["grain"].append(_noise(cells))
    for period in (4, 8, 16):
        for slope_x, slope_y in ((1, 0), (0, 1), (1, 1), (1, -1)):
            bank["stripes"].append(np.where((x * slope_x + y * slope_y) % (2 * period) < period, 1.0, -1.0))
        bank["checks"].append(np.where((x // period + y // period) % 2 == 0, 1.0, -1.0))
        away = np.hypot(x % (2 * period) - period, y % (2 * period) - period)
        bank["dots"].append(np.where(away < 0.65 * period, 1.0, -0.6))
        row = y // period
        joint = (y % period < max(1, period // 4)) | ((x + row % 2 * period) % (2 * period) < max(1, period // 4))
        bank["bricks"].append(np.where(joint, -1.0, 0.6))
        bank["waves"].append(np.sin(2 * np.pi * (y / (2 * period) + np.sin(2 * np.pi * x / 64) / 2)))
    return {name: np.stack([_tiled(tile) for tile in tiles]) for name, tiles in bank.items()}


def _tiled(tile: NDArray[np.float64]) -> NDArray[np.int8]:
    return np.tile(np.clip(np.rint(tile * 127), -127, 127).astype(np.int8), (2, 2))


def _noise(cells: int) -> NDArray[np.float64]:
    """Smooth noise in about [-1, 1] that tiles, with `cells` cells per side."""
    keys = np.arange(cells * cells, dtype=np.int64)
    grid = (mix(keys, seed_key(cells, "texture")) >> np.uint64(40)).astype(np.float64).reshape(cells, cells)
    grid = grid / 2**23 - 1
    at = np.arange(TILE) * cells / TILE
    low = at.astype(np.int64)
    share = at - low
    rows = grid[low] * (1 - share)[:, None] + grid[(low + 1) % cells] * share[:, None]
    return rows[:, low] * (1 - share) + rows[:, (low + 1) % cells] * share


def texture(random: Random, name: str, height: int, width: int) -> NDArray[np.int8]:
    """A random piece (height, width) of a texture."""
    bank = textures()[name]
    tile: NDArray[np.int8] = bank[whole(random, 0, len(bank) - 1)]
    top, left = whole(random, 0, TILE - 1), whole(random, 0, TILE - 1)
    if max(height, width) <= TILE:  # a view
        return tile[top : top + height, left : left + width]
    return tile[np.arange(top, top + height)[:, None] % TILE, np.arange(left, left + width) % TILE]


def colour(random: Random) -> tuple[int, int, int]:
    """A random colour: hue, saturation and brightness are each uniform, so dull colours are common."""
    red, green, blue = colorsys.hsv_to_rgb(random.random(), between(random, 0, 0.95), between(random, 0.25, 1.0))
    return round(red * 255), round(green * 255), round(blue * 255)


def palette(random: Random, count: int, least: int = 70) -> list[tuple[int, int, int]]:
    """Colours that differ visibly from each other, as far as a few tries can find them."""
    colours: list[tuple[int, int, int]] = []
    while len(colours) < count:
        for _ in range(6):
            new = colour(random)
            if all(sum(abs(a - b) for a, b in zip(new, old, strict=True)) >= least for old in colours):
                break
        colours.append(new)
    return colours


def paint(random: Random, roles: NDArray[np.uint8], colours: list[tuple[int, int, int]], depth: int) -> Patch:
    """Colour a fine map of roles (FINE * h, FINE * w), 0 for nothing, with two textures and uneven light."""
    height, width = roles.shape
    names = [TEXTURES[whole(random, 0, len(TEXTURES) - 1)] for _ in range(2)]
    table = np.array([(0, 0, 0), *colours], dtype=np.int16)
    gains = np.array([[0] + [whole(random, depth // 3, depth) for _ in colours] for _ in names], dtype=np.int16)
    which = np.array([0] + [whole(random, 0, 1) for _ in colours])
    gains[0] *= which == 0
    gains[1] *= which == 1
    light = texture(random, names[0], height, width) * gains[0].take(roles)
    light += texture(random, names[1], height, width) * gains[1].take(roles)
    light >>= 7
    light += _slope(random, width)
    light += _slope(random, height)[:, None]
    seen = roles > 0
    lit = np.stack([channel.take(roles) for channel in table.T])
    lit += light
    np.clip(lit, 0, 255, out=lit)
    lit *= seen
    return Patch(_pool(lit), _pool(seen.astype(np.int16)))


def _slope(random: Random, length: int) -> NDArray[np.int16]:
    """Light that rises or falls evenly along one side."""
    steep = whole(random, -50, 50)
    return ((np.arange(length) - length // 2) * steep // length).astype(np.int16)


def _pool(fine: NDArray[np.int16]) -> NDArray[np.int16]:
    """Sum FINE x FINE blocks."""
    rows = fine[..., 0::FINE, :] + fine[..., 1::FINE, :]
    return np.asarray(rows[..., 0::FINE] + rows[..., 1::FINE], dtype=np.int16)


def outline_map(parts: list[Part], points: NDArray[np.float64], shape: tuple[int, int], edge: int) -> NDArray[np.uint8]:
    """A fine map of roles: the parts filled at `points` (in their order, in fine pixels), with edges `edge` wide."""
    picture = Image.new("L", (shape[1], shape[0]), 0)
    pen = ImageDraw.Draw(picture)
    whole_points = np.rint(points).astype(np.int64).tolist()
    at = 0
    for role, outline in parts:
        moved = [tuple(p) for p in whole_points[at : at + len(outline)]]
        at += len(outline)
        pen.polygon(moved, fill=role, outline=OUTLINE if edge == 1 else role)
        if edge > 1:
            pen.line([*moved, moved[0]], fill=OUTLINE, width=edge)
    return np.asarray(picture)


def draw_object(random: Random, parts: list[Part], extent: int, tilt: float = 30.0) -> Patch:
    """An object whose longer side is `extent` pixels: stretched, sheared, mirrored, tilted and textured."""
    angle = math.radians(between(random, -tilt, tilt))
    stretch, shear = between(random, 0.82, 1.22), between(random, -0.12, 0.12)
    side = -1 if chance(random, 0.5) else 1
    cos, sin = math.cos(angle), math.sin(angle)
    turn = np.array([[cos * side * stretch, cos * shear - sin], [sin * side * stretch, sin * shear + cos]])
    points = np.array([p for _, outline in parts for p in outline]) @ turn.T
    low, high = points.min(axis=0), points.max(axis=0)
    points = (points - low) * ((extent * FINE - 1) / float((high - low).max()))
    width, height = (int(v) // FINE + 1 for v in np.rint(points.max(axis=0)))
    edge = chance(random, 0.9) * (1 if extent < 32 else 2)
    roles = outline_map(parts, points, (height * FINE, width * FINE), edge)
    tint = whole(random, 0, 40) if chance(random, 0.85) else whole(random, 215, 255)
    colours = [*palette(random, 4), (tint, tint, tint)]
    return paint(random, roles, colours, depth=34)


def draw_background(random: Random, size: int) -> NDArray[np.int16]:
    """A cluttered background (3, size, size): texture, light, and meaningless blobs, lines, arcs and shards."""
    parts = [(1, box(0.0, 0.0, 1.0, 1.0))]
    if chance(random, 0.5):  # a kind of horizon
        left, right = between(random, 0.2, 0.9), between(random, 0.2, 0.9)
        parts.append((2, [(0.0, left), (1.0, right), (1.0, 1.0), (0.0, 1.0)]))
    for _ in range(whole(random, 2, 8)):
        parts += clutter(random, whole(random, 2, 8), between(random, 0.03, 0.2))
    fine = size * FINE
    points = np.array([p for _, outline in parts for p in outline]) * fine
    points[:4] = [(0, 0), (fine, 0), (fine, fine), (0, fine)]
    patch = paint(random, outline_map(parts, points, (fine, fine), edge=0), palette(random, 8, 40), depth=20)
    return patch.colour // (FINE * FINE)


def clutter(random: Random, role: int, reach: float) -> list[Part]:
    """One meaningless shape, about `reach` in radius, somewhere in the unit square."""
    x, y, kind = random.random(), random.random(), whole(random, 0, 4)
    if kind == 0:
        return [(role, disc(x, y, reach, reach * between(random, 0.4, 1.0)))]
    if kind == 1:
        return [(role, bar((x, y), (random.random(), random.random()), between(random, 0.005, 0.03)))]
    if kind == 2:  # an arc: a ring would need a hole, which would cut through the background
        turn, start = between(random, 0.3, 1.0), random.random()
        outer, inner = disc(x, y, reach, None, start, turn), disc(x, y, reach * 0.75, None, start, turn)
        return [(role, outer + inner[::-1])]
    corners = whole(random, 3, 6)
    turns = sorted(random.random() for _ in range(corners))
    return [(role, [towards((x, y), 360 * t, reach * between(random, 0.5, 1.3)) for t in turns])]


def develop(random: Random, pixels: NDArray[np.int16]) -> NDArray[np.uint8]:
    """The finished picture (size, size, 3) of (3, size, size) paint, with random contrast, brightness and grain."""
    gain, offset = whole(random, 100, 150), whole(random, -25, 25)
    grain = texture(random, "grain", *pixels.shape[1:]) * np.int16(whole(random, 0, 20)) >> 7
    lit = np.clip((pixels - 128) * gain // 128 + (128 + offset) + grain, 0, 255)
    return lit.astype(np.uint8).transpose(1, 2, 0)
