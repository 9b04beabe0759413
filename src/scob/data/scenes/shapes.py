"""What the drawings show: each object as a list of filled outlines in [-1, 1], different every time.

Colour says nothing about the class: a part names one of four roles, and the colour of each role is random.
"""

from collections.abc import Callable
from random import Random

from scob.data.scenes.outlines import (
    FIRST,
    FOURTH,
    HOLE,
    SECOND,
    THIRD,
    Part,
    Point,
    bar,
    between,
    box,
    chance,
    disc,
    ring,
    strokes,
    towards,
    whole,
)  # fmt: skip


def house(random: Random) -> list[Part]:
    eaves, half = between(random, -0.25, 0.1), between(random, 0.6, 0.85)
    ridge = between(random, -0.5, 0.5) if chance(random, 0.3) else 0.0
    parts: list[Part] = []
    if chance(random, 0.6):
        x = between(random, 0.25, 0.5)
        parts.append((FOURTH, box(x, -0.85, x + 0.2, eaves)))
    parts += [
        (FIRST, box(-half, eaves, half, 0.9)),
        (SECOND, [(-half - 0.18, eaves), (ridge, -0.95), (half + 0.18, eaves)]),
    ]
    door = between(random, -0.5, 0.15)
    parts.append((THIRD, box(door, 0.3, door + 0.28, 0.9)))
    for x in (-0.45, 0.3) if door > -0.2 else (0.1,):
        parts.append((FOURTH, box(x - 0.12, eaves + 0.2, x + 0.16, eaves + 0.48)))
    return parts


def tree(random: Random) -> list[Part]:
    width = between(random, 0.1, 0.18)
    parts: list[Part] = [(SECOND, [(-width, 0.1), (width, 0.1), (width * 1.4, 0.95), (-width * 1.4, 0.95)])]
    if chance(random, 0.5):
        for level in range(3):
            top = -0.95 + 0.4 * level
            half = 0.38 + 0.17 * level
            parts.append((FIRST, [(0.0, top), (half, top + 0.62), (-half, top + 0.62)]))
        return parts
    for _ in range(whole(random, 4, 6)):
        x, y = between(random, -0.42, 0.42), between(random, -0.6, 0.0)
        parts.append((FIRST, disc(x, y, between(random, 0.28, 0.42))))
    return [*parts, (FIRST, disc(0.0, -0.35, 0.45))]


def car(random: Random) -> list[Part]:
    nose, roof = between(random, 0.35, 0.6), between(random, -0.5, -0.35)
    parts: list[Part] = [
        (FIRST, [(-0.6, 0.0), (-0.42, roof), (0.3, roof), (nose, 0.0)]),
        (FIRST, [(-0.97, 0.05), (-0.9, -0.05), (0.85, 0.0), (0.98, 0.12), (0.98, 0.36), (-0.97, 0.36)]),
        (THIRD, [(-0.46, -0.04), (-0.34, roof + 0.09), (-0.08, roof + 0.09), (-0.08, -0.04)]),
        (THIRD, [(0.0, -0.04), (0.0, roof + 0.09), (0.25, roof + 0.09), (nose - 0.15, -0.04)]),
    ]
    for x in (-0.52, 0.54):
        parts += [(SECOND, disc(x, 0.36, 0.23)), (FOURTH, disc(x, 0.36, 0.1))]
    return parts


def bicycle(random: Random) -> list[Part]:
    radius, width = between(random, 0.36, 0.44), between(random, 0.07, 0.11)
    parts = ring(SECOND, -0.56, 0.35, radius, width) + ring(SECOND, 0.56, 0.35, radius, width)
    back, front, pedal, seat, head = (-0.56, 0.35), (0.56, 0.35), (-0.05, 0.38), (-0.22, -0.25), (0.4, -0.25)
    for a, b in ((back, pedal), (back, seat), (pedal, seat), (pedal, head), (seat, head), (head, front)):
        parts.append((FIRST, bar(a, b, width)))
    parts += strokes(FIRST, [head, (0.36, -0.5), (between(random, 0.5, 0.62), -0.55)], width)
    return [*parts, *strokes(FIRST, [seat, (-0.26, -0.42)], width), (THIRD, box(-0.45, -0.5, -0.1, -0.4))]


def person(random: Random) -> list[Part]:
    parts: list[Part] = []
    for side in (-1, 1):
        knee = towards((0.12 * side, 0.3), side * between(random, 0, 35), 0.34)
        foot = towards(knee, side * between(random, -20, 25), 0.34)
        parts += strokes(THIRD, [(0.12 * side, 0.22), knee, foot], 0.18)
        elbow = towards((0.24 * side, -0.35), side * between(random, 10, 130), 0.32)
        hand = towards(elbow, side * between(random, -10, 150), 0.3)
        parts += strokes(FIRST, [(0.2 * side, -0.36), elbow], 0.15)
        parts += strokes(SECOND, [elbow, hand], 0.12)
    parts.append((FIRST, [(-0.3, -0.45), (0.3, -0.45), (0.22, 0.3), (-0.22, 0.3)]))
    parts += [(SECOND, disc(0.0, -0.7, 0.2, 0.24))]
    if chance(random, 0.5):
        parts.append((FOURTH, disc(0.0, -0.74, 0.22, 0.22, 0.5, 0.5)))
    return parts


def fish(random: Random) -> list[Part]:
    height, tail = between(random, 0.3, 0.48), between(random, 0.3, 0.5)
    parts: list[Part] = [
        (SECOND, [(-0.5, 0.0), (-0.98, -tail), (-0.82, 0.0), (-0.98, tail)]),
        (SECOND, [(-0.2, -height * 0.7), (0.05, -height - 0.25), (0.35, -height * 0.7)]),
        (FIRST, disc(0.15, 0.0, 0.78, height)),
        (THIRD, [(0.1, 0.05), (-0.25, 0.28), (-0.15, 0.02)]),
        (FOURTH, disc(0.6, -0.1, 0.1)),
    ]
    if chance(random, 0.5):
        for x in (-0.2, 0.1):
            parts.append((SECOND, bar((x, -height * 0.75), (x - 0.06, height * 0.75), 0.1)))
    return parts


def bird(random: Random) -> list[Part]:
    lift = between(random, -0.75, 0.1)
    parts: list[Part] = [
        (SECOND, [(-0.4, 0.0), (-0.98, between(random, -0.3, 0.25)), (-0.9, 0.35), (-0.4, 0.28)]),
        (FOURTH, bar((-0.05, 0.4), (-0.1, 0.88), 0.08)),
        (FOURTH, bar((0.15, 0.4), (0.12, 0.88), 0.08)),
        (FIRST, disc(0.0, 0.15, 0.58, 0.36)),
        (FIRST, disc(0.48, -0.28, 0.26)),
        (FOURTH, [(0.68, -0.38), (0.99, -0.24), (0.68, -0.16)]),
        (THIRD, disc(0.54, -0.34, 0.06)),
        (SECOND, [(0.25, 0.0), (-0.05, 0.32), (-0.6, lift), (-0.25, lift * 0.4 - 0.05)]),
    ]
    return parts


def cup(random: Random) -> list[Part]:
    foot, top = between(random, 0.3, 0.55), between(random, -0.7, -0.35)
    parts = ring(SECOND, 0.55, (top + 0.6) / 2 - 0.05, 0.36, 0.14)
    parts += [
        (FIRST, [(-0.62, top), (0.55, top), (foot - 0.05, 0.72), (-foot - 0.05, 0.72)]),
        (THIRD, disc(-0.03, top, 0.59, 0.13)),
    ]
    if chance(random, 0.5):
        parts.append((FOURTH, box(-0.45, 0.05, 0.4, 0.28)))
    if chance(random, 0.4):
        parts.append((FOURTH, disc(-0.05, 0.78, 0.85, 0.12)))
    return parts


def clock(random: Random) -> list[Part]:
    parts: list[Part] = []
    if chance(random, 0.5):
        parts += [(THIRD, disc(-0.5, -0.72, 0.26)), (THIRD, disc(0.5, -0.72, 0.26))]
        parts += [
            (THIRD, bar((-0.4, 0.5), (-0.65, 0.98), 0.16)),
            (THIRD, bar((0.4, 0.5), (0.65, 0.98), 0.16)),
        ]
    outline = disc(0.0, 0.0, 0.85) if chance(random, 0.75) else box(-0.8, -0.8, 0.8, 0.8)
    parts += [(FIRST, outline), (SECOND, disc(0.0, 0.0, 0.68))]
    for tick in range(0, 12, 1 if chance(random, 0.4) else 3):
        parts.append((FOURTH, bar(towards((0, 0), 30 * tick, 0.52), towards((0, 0), 30 * tick, 0.64), 0.08)))
    for length, width in ((0.38, 0.13), (0.54, 0.09)):
        parts.append((FOURTH, bar((0.0, 0.0), towards((0.0, 0.0), between(random, 0, 360), length), width)))
    return parts


def spikes(points: int, outer: float, inner: float) -> list[Point]:
    """A star outline."""
    return [towards((0.0, 0.0), 180 + 180 * i / points, outer if i % 2 == 0 else inner) for i in range(2 * points)]


def star(random: Random) -> list[Part]:
    points, inner = whole(random, 5, 6), between(random, 0.36, 0.48)
    parts: list[Part] = [(FIRST, spikes(points, 0.98, inner))]
    if chance(random, 0.5):
        parts.append((SECOND, spikes(points, 0.6, inner * 0.6)))
    return parts


def umbrella(random: Random) -> list[Part]:
    side = -1 if chance(random, 0.5) else 1
    hook = [(0.0, 0.72), (0.06 * side, 0.88), (0.2 * side, 0.9), (0.26 * side, 0.76)]
    parts = strokes(THIRD, [(0.0, -0.98), *hook], between(random, 0.07, 0.11))
    dome, edge = between(random, 0.7, 0.95), between(random, -0.1, 0.1)
    parts.append((FIRST, disc(0.0, edge, 0.97, dome, 0.5, 0.5)))
    parts.append((SECOND, disc(0.0, edge, 0.38, dome, 0.5, 0.5)))
    for x in (-0.66, 0.0, 0.66):
        parts.append((HOLE, disc(x, edge + 0.04, 0.31, 0.13)))
    return [*parts, (THIRD, bar((0.0, edge - 0.12), (0.0, 0.72), 0.08))]


def boat(random: Random) -> list[Part]:
    mast = between(random, -0.1, 0.15)
    parts: list[Part] = [
        (FIRST, [(-0.95, 0.35), (0.98, 0.35), (0.6, 0.82), (-0.65, 0.82)]),
        (FOURTH, bar((mast, -0.95), (mast, 0.4), 0.08)),
        (SECOND, [(mast + 0.07, -0.9), (mast + between(random, 0.55, 0.75), 0.22), (mast + 0.07, 0.22)]),
    ]
    if chance(random, 0.7):
        parts.append((THIRD, [(mast - 0.07, between(random, -0.8, -0.5)), (mast - 0.07, 0.22), (mast - 0.6, 0.22)]))
    return parts


def flower(random: Random) -> list[Part]:
    petals, reach = whole(random, 5, 8), between(random, 0.28, 0.36)
    bend = between(random, -0.2, 0.2)
    parts = strokes(THIRD, [(0.0, -0.3), (bend, 0.4), (0.0, 0.98)], 0.1)
    for side in (-1, 1):
        if chance(random, 0.75):
            parts.append((THIRD, [(bend, 0.6), (0.3 * side, 0.3), (0.55 * side, 0.36), (0.3 * side, 0.6)]))
    start = between(random, 0, 360)
    for i in range(petals):
        x, y = towards((0.0, -0.4), start + 360 * i / petals, reach)
        parts.append((FIRST if i % 2 else FOURTH, disc(x, y, 0.22 if petals < 7 else 0.17)))
    return [*parts, (SECOND, disc(0.0, -0.4, 0.2))]


def key(random: Random) -> list[Part]:
    radius, width = between(random, 0.28, 0.38), between(random, 0.12, 0.18)
    parts = ring(FIRST, -0.62, 0.0, radius, 0.15)
    parts.append((FIRST, box(-0.62 + radius - 0.06, -width / 2, 0.98, width / 2)))
    for x in (0.9, 0.62, 0.36)[: whole(random, 2, 3)]:
        parts.append((SECOND, box(x - 0.09, 0.0, x + 0.08, between(random, 0.24, 0.36))))
    return parts


def chair(random: Random) -> list[Part]:
    width, seat = between(random, 0.1, 0.15), between(random, 0.05, 0.2)
    parts: list[Part] = [
        (SECOND, bar((-0.5, seat), (-0.58, 0.98), width)),
        (SECOND, bar((0.5, seat), (0.58, 0.98), width)),
        (SECOND, bar((-0.25, seat), (-0.22, 0.8), width)),
        (SECOND, bar((0.3, seat), (0.27, 0.8), width)),
        (SECOND, bar((-0.45, seat), (-0.58, -0.98), width)),
    ]
    if chance(random, 0.5):
        parts.append((THIRD, [(-0.62, -0.9), (-0.42, -0.9), (-0.35, seat), (-0.52, seat)]))
    else:
        parts.append((SECOND, bar((0.1, seat), (-0.03, -0.98), width)))
        for y in (-0.85, -0.55, -0.25):
            parts.append((THIRD, box(-0.58 - y / 10, y, 0.03 + y / 10, y + 0.14)))
    return [
        *parts,
        (FIRST, [(-0.56, seat - 0.06), (0.52, seat - 0.06), (0.6, seat + 0.1), (-0.52, seat + 0.1)]),
    ]


def balloon(random: Random) -> list[Part]:
    sway = between(random, -0.18, 0.18)
    string = [(0.0, 0.2), (sway, 0.45), (-sway, 0.7), (sway, 0.98)]
    parts = strokes(THIRD, string, 0.06)
    parts += [
        (SECOND, [(0.0, 0.1), (0.14, 0.3), (-0.14, 0.3)]),
        (FIRST, disc(0.0, -0.4, between(random, 0.42, 0.52), 0.58)),
    ]
    if chance(random, 0.6):
        parts.append((FOURTH, disc(-0.18, -0.6, 0.1, 0.16)))
    return parts


Shape = Callable[[Random], list[Part]]
# From the most to the least frequent in the scenes.
SHAPES: dict[str, Shape] = {
    shape.__name__: shape
    for shape in (
        person, tree, car, house, chair, bicycle, fish, bird,
        flower, cup, clock, boat, star, umbrella, balloon, key,
    )
}  # fmt: skip
