"""The decoder: one test for each unusual or broken kind of image."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.data.images import MAX_PIXELS, ImageFiles, Root, decode, image_names
from scob.errors import UserError

Painter = Callable[..., Path]


def test_plain_image_and_squash_resize(tmp_path: Path, paint: Painter) -> None:
    path = paint(tmp_path / "a.png", (40, 20))
    assert decode(path).shape == (20, 40, 3)
    small = decode(path, 10)
    expected = np.asarray(Image.open(path).resize((10, 10), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(small, expected)
    np.testing.assert_array_equal(decode(path.read_bytes(), 10), small)


def test_large_jpeg_decoded_at_a_fraction_stays_near_the_full_decode(tmp_path: Path) -> None:
    x = np.linspace(0, 255, 801)[None, :, None] * np.ones((603, 1, 3))
    path = tmp_path / "a.jpg"
    Image.fromarray(x.astype(np.uint8)).save(path, quality=95)
    full = np.asarray(Image.open(path).convert("RGB").resize((50, 50), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(decode(path, 50).astype(int) - full).max() <= 3


def test_truncated(tmp_path: Path, paint: Painter) -> None:
    for kind in ("jpg", "png", "webp"):
        path = paint(tmp_path / f"a.{kind}", (200, 200))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(UserError, match=rf"a\.{kind}: .*(damaged|not an image)"):
            decode(path, 32)


def test_zero_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.touch()
    with pytest.raises(UserError, match=r"a\.jpg: the file is empty"):
        decode(path)
    with pytest.raises(UserError, match="the image: the file is empty"):
        decode(b"")


def test_not_an_image_and_no_file_and_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_text("hello")
    with pytest.raises(UserError, match="not an image"):
        decode(path)
    with pytest.raises(UserError, match="no such file"):
        decode(tmp_path / "b.jpg")
    with pytest.raises(UserError, match="cannot be read"):
        decode(tmp_path)


def test_animated_gives_the_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ((255, 0, 0), (0, 255, 0))]
    for kind in ("gif", "webp", "png"):
        path = tmp_path / f"a.{kind}"
        frames[0].save(path, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "webp" else {}))
        assert decode(path)[4, 4].tolist() == [255, 0, 0]


def test_cmyk(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=100)
    red, green, blue = decode(path, 8)[4, 4].tolist()
    assert red > 200
    assert green < 60
    assert blue < 60


def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 256, dtype=np.uint16)[None].repeat(4, 0)
    for kind in ("png", "tif"):
        path = tmp_path / f"a.{kind}"
        Image.fromarray(ramp).save(path)
        decoded = decode(path)
        assert decoded.shape == (4, 256, 3)
        np.testing.assert_array_equal(decoded[0, :, 0], ramp[0] >> 8)


def test_dark_sixteen_bit_grey_stays_dark(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.full((4, 4), 200, np.uint16)).save(path)
    assert (decode(path) == 0).all()


def test_sixteen_bit_colour(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + struct.pack(">3H", 65535, 32768, 0) * 2 for _ in range(2))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 2, 2, 16, 2, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    assert decode(raw)[0, 0].tolist() == [255, 128, 0]


def test_floating_point_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    Image.fromarray(np.ones((4, 4), np.float32)).save(path)
    with pytest.raises(UserError, match="floating-point"):
        decode(path)


def test_one_pixel(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (1, 1), (10, 20, 30)).save(path)
    decoded = decode(path, 16)
    assert decoded.shape == (16, 16, 3)
    assert (decoded == [10, 20, 30]).all()


@pytest.mark.parametrize("pixels", [MAX_PIXELS, 3 * MAX_PIXELS])
def test_decompression_bomb(pixels: int) -> None:
    side = int(pixels**0.5) + 2

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    with pytest.raises(UserError, match="more than 89 million pixels"):
        decode(raw, 32)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(tmp_path: Path, orientation: int) -> None:
    from PIL import ImageOps

    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path, exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(path)))
    np.testing.assert_array_equal(decode(path), upright)
    squashed = np.asarray(Image.fromarray(upright).resize((16, 16), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(decode(path, 16).astype(int) - squashed).max() <= 1


def test_broken_exif_does_not_matter(tmp_path: Path, paint: Painter) -> None:
    path = paint(tmp_path / "a.jpg", exif=b"Exif\0\0garbage")
    assert decode(path).shape == (18, 24, 3)


def test_transparent_pixels_become_white() -> None:
    out = io.BytesIO()
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(out, "PNG")
    assert (decode(out.getvalue()) == 255).all()


def test_the_error_names_file_and_row(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    files = ImageFiles((str(tmp_path / "a.jpg"),), ("train.csv row 7",))
    with pytest.raises(UserError, match=r"a\.jpg \(train\.csv row 7\): the file is empty"):
        files.load(0)


def test_names_outside_the_root_are_refused(tmp_path: Path, paint: Painter) -> None:
    root, outside = tmp_path / "root", paint(tmp_path / "secret.png")
    inside = paint(root / "deep" / "a.png")
    where = Root(root)
    assert where.inside("deep/../deep/a.png", "t.csv row 2") == str(inside)
    assert where.inside(str(inside), "t.csv row 2") == str(inside)
    for name in ("../secret.png", str(outside), "deep/../../secret.png", "../nothing.png"):
        with pytest.raises(UserError, match=r"t\.csv row 2: .*outside the data folder"):
            where.inside(name, "t.csv row 2")


def test_links_out_of_the_root_are_refused_and_links_within_are_not(tmp_path: Path, paint: Painter) -> None:
    root = tmp_path / "root"
    paint(tmp_path / "out" / "b.png")
    paint(root / "a.png")
    (root / "link.png").symlink_to(tmp_path / "out" / "b.png")
    (root / "linked").symlink_to(tmp_path / "out")
    (root / "near.png").symlink_to(root / "a.png")
    (root / "dangling.png").symlink_to(root / "gone.png")
    where = Root(root)
    assert where.inside("near.png", "row") == str(root / "near.png")
    for name in ("link.png", "linked/b.png"):
        with pytest.raises(UserError, match="outside the data folder"):
            where.inside(name, "row")
    for name in ("dangling.png", "missing.png", "no/such/folder.png"):
        with pytest.raises(UserError, match="does not exist"):
            where.inside(name, "row")
    for name in ("", "a\0b"):
        with pytest.raises(UserError, match="is not a file name"):
            where.inside(name, "row")
    (root / "folder").mkdir()
    with pytest.raises(UserError, match="not a file"):
        where.inside("folder", "row")


def test_image_names_are_sorted_and_skip_hidden(tmp_path: Path, paint: Painter) -> None:
    for name in ("b.png", "a/c.JPG", ".hidden.png", ".git/d.png"):
        paint(tmp_path / name, format="PNG")
    (tmp_path / "notes.txt").touch()
    assert image_names(tmp_path) == ["a/c.JPG", "b.png"]
