"""Pictures and masks for the page, against pycocotools and Pillow."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco

from scob.errors import UserError
from scob.recovery.web.pictures import decode_mask, picture, spotlight


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1), st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_masks_decode_as_pycocotools_does(height: int, width: int, seed: int, share: float) -> None:
    cells = np.random.default_rng(seed).random((height, width)) < share
    held = coco.encode(np.asfortranarray(cells.astype(np.uint8)))
    counts = held["counts"].decode()
    assert (decode_mask({"size": [height, width], "counts": counts}) == cells).all()


def test_a_long_mask_decodes() -> None:
    cells = np.zeros((700, 900), np.uint8)
    cells[100:600, 50:850] = 1
    held = coco.encode(np.asfortranarray(cells))
    assert (decode_mask({"size": [700, 900], "counts": held["counts"].decode()}) == cells).all()


def test_a_plain_list_of_runs_decodes() -> None:
    mask = decode_mask({"size": [2, 3], "counts": [1, 2, 3]})
    assert mask.astype(int).tolist() == [[0, 1, 0], [1, 0, 0]]


@given(st.text(st.characters(min_codepoint=0, max_codepoint=200), max_size=40))
@settings(max_examples=300, deadline=None)
def test_a_damaged_mask_is_a_sentence_and_never_more(text: str) -> None:
    try:
        assert decode_mask({"size": [28, 28], "counts": text}).shape == (28, 28)
    except UserError as error:
        assert "mask is damaged" in str(error)


@pytest.mark.parametrize(
    "mask",
    [{}, {"size": [0, 4], "counts": []}, {"size": [1e9, 1e9], "counts": "0"}, {"size": 3, "counts": "0"},
     {"size": [2, 2], "counts": [5]}, {"size": [2, 2], "counts": [-1, 5]}, {"size": [2, 2], "counts": None}],
)  # fmt: skip
def test_an_impossible_mask_is_a_sentence(mask: dict[str, object]) -> None:
    with pytest.raises(UserError, match="mask is damaged"):
        decode_mask(mask)


def overlay(cells: np.ndarray, ratio: float) -> np.ndarray:
    held = coco.encode(np.asfortranarray(cells.astype(np.uint8)))
    raw = spotlight({"size": list(cells.shape), "counts": held["counts"].decode()}, ratio)
    return np.asarray(Image.open(io.BytesIO(raw)))


def test_the_spotlight_is_clear_inside_and_dark_outside() -> None:
    cells = np.zeros((28, 28), bool)
    cells[4:14, 14:24] = True
    shown = overlay(cells, 1.5)
    height, width = shown.shape[:2]
    assert width / height == pytest.approx(1.5, abs=0.01)
    assert shown[height * 9 // 28, width * 19 // 28, 3] == 0
    assert shown[height * 22 // 28, width * 5 // 28, 3] > 150


def test_a_mask_of_one_cell_is_still_seen_and_an_empty_one_is_all_dark() -> None:
    cells = np.zeros((14, 14), bool)
    assert (overlay(cells, 1.0)[..., 3] > 150).all()
    cells[7, 7] = True
    shown = overlay(cells, 1.0)
    assert 0.001 < (shown[..., 3] == 0).mean() < 0.02


def test_a_large_or_turned_image_is_made_small_and_upright(tmp_path: Path) -> None:
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (3000, 1000), "red").save(path, exif=exif)
    raw, media = picture(path, 600)
    assert media == "image/jpeg" and Image.open(io.BytesIO(raw)).size == (200, 600)


def test_a_small_png_is_sent_as_it_is_and_a_new_file_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "small.png"
    Image.new("RGB", (10, 8), "red").save(path)
    assert picture(path, 600) == (path.read_bytes(), "image/png")
    Image.new("RGB", (12, 8), "blue").save(path)
    assert picture(path, 600) == (path.read_bytes(), "image/png")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F"])
def test_every_kind_of_image_can_be_shown(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "image.tif" if mode != "P" else tmp_path / "image.gif"
    Image.new(mode, (40, 30)).save(path)
    raw, media = picture(path, 20)
    assert media == "image/jpeg" and Image.open(io.BytesIO(raw)).size == (20, 15)


def test_a_file_that_is_no_image_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("secret")
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(whole, "PNG")
    (tmp_path / "torn.png").write_bytes(whole.getvalue()[:2000])
    for name in ("a.png", "torn.png", "missing.png", "."):
        with pytest.raises(UserError):
            picture(tmp_path / name, 600)


def test_a_picture_over_the_pixel_limit_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    Image.new("1", (13_000, 13_000)).save(tmp_path / "vast.png")
    with pytest.raises(UserError, match="million pixels"):
        picture(tmp_path / "vast.png", 192)


@pytest.mark.parametrize("mask", [{"size": [1e999, 4], "counts": []}, {"size": [2, 2], "counts": [1e999]}])
def test_infinities_in_a_mask_are_a_sentence(mask: dict[str, object]) -> None:
    with pytest.raises(UserError, match="mask is damaged"):
        decode_mask(mask)


SHORT = """
import resource, sys
from pathlib import Path
from scob.errors import UserError
from scob.recovery.web.pictures import picture
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
try:
    picture(Path(sys.argv[1]), 6)
except UserError as error:
    print("refused:", error)
"""


def test_a_chunk_that_claims_gigabytes_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"IDAT") - 4] = 0xEB  # the first byte of its length
    path.write_bytes(raw)
    done = subprocess.run([sys.executable, "-c", SHORT, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("refused:"), done.stderr
