"""Drawing: patches on a canvas, textures that tile, objects of the size asked for."""

from random import Random

import numpy as np

from scob.data.scenes.drawing import (
    FINE,
    TEXTURES,
    TILE,
    Patch,
    clip,
    develop,
    draw_background,
    draw_object,
    palette,
    texture,
    textures,
)
from scob.data.scenes.outlines import box


def test_clip_gives_the_visible_part_of_a_patch() -> None:
    here, there = clip((4, 6), (10, 10), -2, 8)
    assert here == (slice(0, 2), slice(2, 6))
    assert there == (slice(8, 10), slice(0, 4))
    here, there = clip((4, 6), (10, 10), 20, 0)  # nothing of it
    assert np.zeros((4, 6))[here].size == 0


def test_a_patch_covers_by_its_share_of_subpixels() -> None:
    full = FINE * FINE
    canvas = np.full((3, 2, 2), 100, np.int16)
    cover = np.array([[full, 0], [full // 2, 0]], np.int16)
    Patch(np.stack([cover * 20] * 3), cover).over(canvas, 0, 0)
    assert canvas[0].tolist() == [[20, 100], [60, 100]]


def test_every_texture_repeats_its_tile() -> None:
    assert tuple(textures()) == TEXTURES
    for bank in textures().values():
        assert bank.shape[1:] == (2 * TILE, 2 * TILE)
        assert np.array_equal(bank[:, :TILE, :TILE], bank[:, TILE:, TILE:])


def test_a_piece_of_texture_may_be_larger_than_its_tile() -> None:
    assert texture(Random(0), "bricks", 10, 20).shape == (10, 20)
    assert texture(Random(0), "bricks", 600, 20).shape == (600, 20)


def test_a_palette_has_colours_that_differ() -> None:
    colours = palette(Random(3), 4)
    assert len(colours) == 4
    assert all(0 <= value <= 255 for colour in colours for value in colour)
    assert len(set(colours)) == 4


def test_an_object_has_the_extent_asked_for() -> None:
    for seed in range(10):
        patch = draw_object(Random(seed), [(1, box(-1.0, -0.3, 1.0, 0.3))], 40)
        assert max(patch.cover.shape) in (40, 41)
        assert patch.colour.shape == (3, *patch.cover.shape)
        assert patch.cover.max() == FINE * FINE


def test_a_background_fills_the_picture_and_develops_to_bytes() -> None:
    ground = draw_background(Random(1), 48)
    assert ground.shape == (3, 48, 48)
    assert ground.min() >= 0 and ground.max() <= 255
    picture = develop(Random(2), ground)
    assert picture.shape == (48, 48, 3) and picture.dtype == np.uint8
    assert np.array_equal(picture, develop(Random(2), ground))
