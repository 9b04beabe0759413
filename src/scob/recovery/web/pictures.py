"""Pictures for the browser: an image at a limited size, and a mask as a spotlight over it."""

import io
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

from scob.data.heif import open_image
from scob.data.images import MAX_PIXELS
from scob.errors import UserError

FULL, THUMBNAIL = 1600, 192
LARGEST_MASK = 64 * 1024 * 1024
OUTLINE = (255, 196, 61)


def picture(path: Path, side: int) -> tuple[bytes, str]:
    """An image file, EXIF rotation applied, at most `side` pixels long: its bytes and media type."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise UserError(f"there is no image at {path}") from error
    return _picture(path, status.st_mtime_ns, status.st_size, side)


@lru_cache(maxsize=256)
def _picture(path: Path, changed: int, size: int, side: int) -> tuple[bytes, str]:
    try:
        with path.open("rb") as file, open_image(file, str(path)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"it has more than {MAX_PIXELS // 1_000_000} million pixels")
            kind = image.format
            upright = image.getexif().get(0x0112, 1) == 1
            if upright and kind in ("PNG", "JPEG") and max(image.size) <= side:
                image.load()  # raises for a broken file, which must not be sent as a picture
                return path.read_bytes(), f"image/{kind.lower()}"
            image.draft("RGB", (side, side))
            shown = ImageOps.exif_transpose(image)
            shown.thumbnail((side, side), Image.Resampling.LANCZOS)
            if "A" in shown.getbands() or "transparency" in shown.info:
                layer = shown.convert("RGBA")
                shown = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
            content = io.BytesIO()
            shown.convert("RGB").save(content, "JPEG", quality=88)
            return content.getvalue(), "image/jpeg"
    except Exception as error:  # a damaged file can make Pillow's decoders raise anything
        raise UserError(f"{path} is not an image that can be read: {error}") from error


def decode_mask(mask: Mapping[str, Any]) -> NDArray[np.bool_]:
    """COCO RLE, compressed text or plain list, to (H, W).

    On damaged text pycocotools reads past its buffer and crashes the process. A user may have edited the file, so it
    is decoded here, with every run checked.
    """
    try:
        height, width = (int(side) for side in mask["size"])
        counts = mask["counts"]
        if height < 1 or width < 1 or height * width > LARGEST_MASK:
            raise ValueError(f"size {height} x {width}")
        runs = _runs(counts.encode("ascii")) if isinstance(counts, str) else [int(run) for run in counts]
        if any(run < 0 for run in runs) or sum(runs) != height * width:
            raise ValueError(f"the runs do not fill {height} x {width}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"a mask is damaged: {error}") from error
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(width, height).T


def _runs(text: bytes) -> list[int]:
    """COCO's text: 5 bits per character, offset 48; from the fourth run on, each is stored as the
    difference from the run two before it."""
    runs: list[int] = []
    value = shift = 0
    for character in text:
        digit = character - 48
        if not 0 <= digit < 64 or shift > 60:
            raise ValueError("its text is not run lengths")
        value |= (digit & 0x1F) << shift
        shift += 5
        if digit & 0x20:
            continue
        if digit & 0x10:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("its text ends in the middle of a number")
    return runs


def spotlight(mask: Mapping[str, Any], ratio: float = 1.0, side: int = 640) -> bytes:
    """A PNG to show over the image: clear inside the mask, dark outside, with an outline.

    Masks are coarse (28 x 28 cells): they are scaled smoothly before the outline is drawn, so that it follows the
    object. `ratio` is the image's width over its height, so that the outline is equally thick everywhere.
    """
    size = (side, max(1, round(side / ratio))) if ratio >= 1 else (max(1, round(side * ratio)), side)
    cells = Image.fromarray(decode_mask(mask).astype(np.uint8) * 255)
    soft = cells.resize(size, Image.Resampling.BILINEAR)
    soft = soft.filter(ImageFilter.GaussianBlur(0.7 * side / max(cells.size)))
    level = max(1.0, float(np.asarray(soft).max()) / 2)  # half the peak, so that a mask of one cell does not vanish
    inside = soft.point([0 if grey < level else 255 for grey in range(256)])
    inside = inside.filter(ImageFilter.GaussianBlur(0.8))
    edge = np.asarray(inside.filter(ImageFilter.MaxFilter(5)), np.float32) - np.asarray(
        inside.filter(ImageFilter.MinFilter(3)), np.float32
    )
    outside = 1 - np.asarray(inside, np.float32) / 255
    line = (edge / 255).clip(0, 1)[..., None]
    colour = np.array([10, 12, 18], np.float32) * (1 - line) + np.array(OUTLINE, np.float32) * line
    alpha = np.maximum(0.6 * outside, line[..., 0]) * 255
    content = io.BytesIO()
    Image.fromarray(np.dstack([colour, alpha]).round().astype(np.uint8), "RGBA").save(content, "PNG")
    return content.getvalue()
