"""Overlays and the names of their files."""

import io

import numpy as np
from PIL import Image

from scob.inference.explain import Explanation
from scob.inference.overlays import (
    FRAME,
    OUTLINE,
    caption,
    eroded,
    fitted,
    font,
    overlay,
    png,
    shrink,
    unique_names,
    with_place,
)
from scob.inference.parts import Place


def explained(heat: np.ndarray) -> Explanation:
    return Explanation("i", "c", 0.5, heat, Place.of(heat))


def grey(side: int = 160) -> np.ndarray:
    return np.full((side, side, 3), 100, np.uint8)


def test_an_overlay_is_warm_where_the_map_is() -> None:
    heat = np.zeros((2, 2), np.float32)
    heat[1, 0] = 1
    drawn = np.asarray(overlay(grey(), explained(heat)))
    red, green, blue = drawn[150, 10].tolist()
    assert red > 150 and green < 90 and blue < 75
    assert (drawn[70, 150] == 55).all()  # dimmed where the class is not


def test_the_outline_follows_the_mask_and_each_part_has_a_box() -> None:
    heat = np.zeros((8, 8), np.float32)
    heat[1:4, 0:3] = heat[4:7, 5:8] = 1
    e = explained(heat)
    drawn = np.asarray(with_place(grey(), e.place))
    mask = e.mask(160, 160)
    edge = mask & ~eroded(mask)
    boxed = (drawn == FRAME).all(axis=2)
    assert ((drawn == OUTLINE).all(axis=2) | boxed)[edge].all() and not (drawn == OUTLINE).all(axis=2)[~mask].any()
    assert len(e.boxes) == 2
    for x0, y0, x1, y1 in e.boxes:
        assert boxed[round(160 * y0), round(160 * (x0 + x1) / 2)] and boxed[round(160 * (y0 + y1) / 2), round(160 * x0)]
        assert boxed[round(160 * y1) - 1, round(160 * (x0 + x1) / 2)]


def test_without_a_clear_place_nothing_is_drawn_but_the_caption() -> None:
    e = Explanation("i", "c", 0.5, np.ones((4, 4), np.float32))
    assert caption(e) == "c 0.50: no clear place" and caption(explained(np.eye(4, dtype=np.float32))) == "c 0.50"
    assert (np.asarray(with_place(grey(), e.place)) == 100).all()
    drawn = np.asarray(overlay(grey(), e))
    assert (drawn[40:] == 100).all() and (drawn[:40] != 100).any()


def test_a_caption_that_is_too_long_is_cut_short() -> None:
    words = fitted("a very long name " * 20, 13, 200)
    assert words.endswith("…") and font(13).getlength(words) <= 200
    assert fitted("short\n name", 13, 200) == "short name"
    overlay(grey(8), Explanation("i", "\udce9 犬" * 99, 0.5))  # no picture too small, no name too odd


def test_erosion_takes_one_pixel_off_every_edge_inside_the_picture() -> None:
    mask = np.zeros((7, 7), bool)
    mask[1:6, 2:7] = True
    inner = np.zeros((7, 7), bool)
    inner[2:5, 3:7] = True  # the right edge is the picture's own
    assert (eroded(mask) == inner).all()


def test_a_picture_shrinks_to_its_longer_side_and_never_grows() -> None:
    wide = np.zeros((50, 200, 3), np.uint8)
    assert shrink(wide, 100).shape == (25, 100, 3) and shrink(wide, 400) is wide
    assert shrink(np.zeros((1, 300, 3), np.uint8), 100).shape == (1, 100, 3)


def test_png_keeps_every_pixel() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    with Image.open(io.BytesIO(png(Image.fromarray(pixels)))) as picture:
        assert picture.format == "PNG" and (np.asarray(picture) == pixels).all()


def test_file_names_are_unique_on_every_file_system() -> None:
    names = unique_names(["a", "b", "c", "d"], ["x/1", "X_1", "x-2", "x?1"])
    assert len({n.lower() for n in names.values()}) == 4 and not any("/" in n for n in names.values())
