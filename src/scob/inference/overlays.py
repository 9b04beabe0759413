"""Drawing explanations: the picture with its map, the mask's outline and the box, and the file it is saved as."""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from scob.inference.explain import Explanation


def overlay(pixels: NDArray[np.uint8], explanation: "Explanation") -> Image.Image:
    """The picture with the map as colour, the mask's outline in white and a box around each part."""
    from scob.inference.regions import enlarge

    height, width = pixels.shape[:2]
    assert explanation.heat is not None
    heat = enlarge(explanation.heat, height, width)[..., None]
    warm = np.concatenate((np.full_like(heat, 255), 60 + 180 * (1 - heat), np.full_like(heat, 20)), axis=2)
    mixed = pixels * (1 - 0.55 * heat) + warm * 0.55 * heat
    inside = explanation.mask(height, width)
    mixed[inside & ~eroded(inside)] = 255
    picture = Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for x0, y0, x1, y1 in explanation.boxes:
        corners = (x0 * width, y0 * height, x1 * width - 1, y1 * height - 1)
        draw.rectangle(corners, outline=(0, 114, 178), width=max(1, width // 200))
    caption = f"{explanation.label} {explanation.score:.2f}".encode("latin-1", "replace").decode("latin-1")
    left, top, right, bottom = draw.textbbox((4, 3), caption)
    draw.rectangle((left - 3, top - 2, right + 3, bottom + 2), fill=(0, 0, 0))
    draw.text((4, 3), caption, fill=(255, 255, 255))
    return picture


def eroded(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask (H, W) eroded by one pixel, except along the picture's border."""
    inner = mask.copy()
    inner[1:] &= mask[:-1]
    inner[:-1] &= mask[1:]
    inner[:, 1:] &= mask[:, :-1]
    inner[:, :-1] &= mask[:, 1:]
    return inner


def shrink(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """The picture with at most `side` pixels on its longer side."""
    height, width = pixels.shape[:2]
    if max(height, width) <= side:
        return pixels
    ratio = side / max(height, width)
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))


def png(picture: Image.Image) -> bytes:
    """A picture as PNG."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def unique_names(keys: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """A unique file name for every key, ignoring case, as close as possible to the one asked for."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key, wanted_name in zip(keys, wanted, strict=True):
        name, number = safe(wanted_name), 1
        while name.lower() in taken:
            number += 1
            name = f"{safe(wanted_name)}-{number}"
        taken.add(name.lower())
        names[key] = name
    return names


def safe(name: str) -> str:
    """The name with only characters that every file system accepts."""
    return re.sub(r"[^\w.-]+", "_", name.encode("utf-8", "replace").decode()).strip(".")[:80] or "_"
