"""Overlays and the names of their files."""

import io

import numpy as np
from PIL import Image

from scob.inference.explain import Explanation
from scob.inference.overlays import eroded, overlay, png, shrink, unique_names


def test_an_overlay_is_warm_where_the_map_is() -> None:
    heat = np.zeros((2, 2), np.float32)
    heat[1, 0] = 1
    drawn = np.asarray(overlay(np.full((80, 80, 3), 100, np.uint8), Explanation("i", "c", 0.5, heat, None)))
    assert drawn[75, 5, 0] > 180 and (drawn[35, 75] == 100).all()


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
