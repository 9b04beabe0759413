"""Drawing explanations: the picture with its map, the mask's outline and the boxes, and the file it is saved as."""

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from scob.files import portable_name

if TYPE_CHECKING:
    from scob.inference.explain import Explanation
    from scob.inference.parts import Place


NOWHERE = "no clear place"
OUTLINE, SHADE, FRAME = (255, 255, 255), (20, 20, 20), (0, 150, 255)


def overlay(pixels: NDArray[np.uint8], explanation: "Explanation") -> Image.Image:
    """The picture with the place drawn on it, and a caption: the class, its score, or that there is no clear place."""
    picture = with_place(pixels, explanation.place)
    draw = ImageDraw.Draw(picture)
    size = min(28, max(11, picture.width // 28))
    words = fitted(caption(explanation), size, picture.width - size)
    left, top, right, bottom = draw.textbbox((size // 2, size // 3), words, font=font(size))
    draw.rectangle((left - size // 3, top - size // 4, right + size // 3, bottom + size // 4), fill=(0, 0, 0))
    draw.text((size // 2, size // 3), words, fill=(255, 255, 255), font=font(size))
    return picture


def caption(explanation: "Explanation") -> str:
    """`person 0.87`, or `person 0.31: no clear place`."""
    return f"{explanation.label} {explanation.score:.2f}" + ("" if explanation.place else f": {NOWHERE}")


def with_place(pixels: NDArray[np.uint8], place: "Place | None", line: int | None = None) -> Image.Image:
    """The picture (H, W, 3), dimmed outside the place, with the map as colour, the outline and a box for each part.

    `line` is the thickness of the outline in pixels. Without a place, the picture as it is.
    """
    from scob.inference.regions import enlarge

    if place is None:
        return Image.fromarray(pixels.copy())
    height, width = pixels.shape[:2]
    line = line or max(1, round(max(height, width) / 240))
    heat = enlarge(place.heat, height, width)[..., None]
    inside = place.mask(height, width)
    light = np.where(inside, 1.0, 0.55 + 0.45 * (heat[..., 0] / max(place.threshold, 1e-6)).clip(0, 1) ** 2)[..., None]
    warm = np.concatenate((np.full_like(heat, 255), 60 + 180 * (1 - heat), np.full_like(heat, 20)), axis=2)
    mixed = pixels * light * (1 - 0.4 * heat) + warm * 0.4 * heat
    mixed[~inside & ~eroded(~inside, line)] = SHADE  # so that the outline is seen on a white wall as well
    mixed[inside & ~eroded(inside, line)] = OUTLINE
    picture = Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for x0, y0, x1, y1 in place.boxes:
        corners = (x0 * width, y0 * height, max(x0 * width, x1 * width - 1), max(y0 * height, y1 * height - 1))
        draw.rectangle(corners, outline=FRAME, width=line)
    return picture


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """The font of captions, at `size` pixels: DejaVu Sans, which has Latin, Greek and Cyrillic letters."""
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf")), size)


def fitted(words: str, size: int, width: float) -> str:
    """The words on one line, cut short with an ellipsis if they are wider than `width` pixels."""
    words = " ".join(words.encode("utf-8", "replace").decode().split())
    if font(size).getlength(words) <= width:
        return words
    while words and font(size).getlength(words + "…") > width:
        words = words[:-1]
    return words + "…"


def eroded(mask: NDArray[np.bool_], pixels: int = 1) -> NDArray[np.bool_]:
    """The mask (H, W) eroded by some pixels, except along the picture's border."""
    for _ in range(pixels):
        inner = mask.copy()
        inner[1:] &= mask[:-1]
        inner[:-1] &= mask[1:]
        inner[:, 1:] &= mask[:, :-1]
        inner[:, :-1] &= mask[:, 1:]
        mask = inner
    return mask


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
        name, number = portable_name(wanted_name), 1
        while name.lower() in taken:
            number += 1
            name = f"{portable_name(wanted_name)}-{number}"
        taken.add(name.lower())
        names[key] = name
    return names
