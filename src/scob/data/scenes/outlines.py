"""The outlines that drawings consist of, and the few random numbers they need.

A part is `(role, points)`: role 1 to 4 is one of an object's four colours, 0 cuts a hole; y points down.
"""

import math
from itertools import pairwise
from random import Random

Point = tuple[float, float]
Part = tuple[int, list[Point]]
HOLE, FIRST, SECOND, THIRD, FOURTH = range(5)


def between(random: Random, low: float, high: float) -> float:
    """Uniform in [low, high). Drawings use only `random.random`, whose numbers Python promises never to change."""
    return low + (high - low) * random.random()


def chance(random: Random, probability: float) -> bool:
    """True with that probability."""
    return random.random() < probability


def whole(random: Random, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + int(random.random() * (high - low + 1))


def disc(x: float, y: float, rx: float, ry: float | None = None, start: float = 0.0, turn: float = 1.0) -> list[Point]:
    """An ellipse, or an arc of `turn` full turns from `start` on (clockwise, in full turns from the right)."""
    steps = max(8, round(22 * turn))
    ry = rx if ry is None else ry
    angles = [2 * math.pi * (start + turn * i / steps) for i in range(steps + (turn < 1))]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


def box(left: float, top: float, right: float, bottom: float) -> list[Point]:
    """An upright rectangle."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def bar(start: Point, end: Point, width: float) -> list[Point]:
    """A straight stroke."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    scale = width / 2 / (math.hypot(dx, dy) or 1.0)
    nx, ny = -dy * scale, dx * scale
    return [
        (start[0] + nx, start[1] + ny),
        (end[0] + nx, end[1] + ny),
        (end[0] - nx, end[1] - ny),
        (start[0] - nx, start[1] - ny),
    ]


def strokes(role: int, points: list[Point], width: float) -> list[Part]:
    """A bent stroke."""
    return [(role, bar(a, b, width)) for a, b in pairwise(points)]


def ring(role: int, x: float, y: float, radius: float, width: float) -> list[Part]:
    """A disc with a hole."""
    return [(role, disc(x, y, radius)), (HOLE, disc(x, y, radius - width))]


def towards(start: Point, angle: float, length: float) -> Point:
    """The point `length` away, at `angle` degrees from straight down (positive to the right)."""
    return (
        start[0] + length * math.sin(math.radians(angle)),
        start[1] + length * math.cos(math.radians(angle)),
    )
