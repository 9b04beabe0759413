"""From an image file to pixels: the decoder that training, evaluation, prediction and the cache all use.

Does not import torch, so that a worker process starts quickly.
"""

import contextlib
import io
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from scob.data import heif
from scob.errors import UserError

# What backbones trained on ImageNet expect: mean and deviation of red, green and blue in [0, 1].
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# 89 megapixels, where Pillow begins to warn. Its own limit is twice that: half a gigabyte of memory per image.
MAX_PIXELS = 1024 * 1024 * 1024 // 4 // 3
SUFFIXES = heif.SUFFIXES | frozenset(
    f".{kind}"
    for kind in ["jpg", "jpeg", "jpe", "jfif", "png", "bmp", "gif", "webp", "tif", "tiff", "jp2", "avif", "tga"]
)
_REMEDY = "replace it, or leave it out with --skip-bad"

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# An image between Pillow's two limits is refused below; the warning would add nothing.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def cause(complaint: str) -> str:
    """What is wrong with an image, without the advice that follows it."""
    return complaint.partition("; ")[0]


def decode(source: Path | str | bytes, size: int | None = None, where: str = "") -> NDArray[np.uint8]:
    """(H, W, 3) RGB with the EXIF rotation applied; squash-resized (bilinear) to (size, size) if asked.

    Animations give their first frame, CMYK becomes RGB, 16 bits become 8, and transparent pixels become white. A
    file that is missing, empty, damaged or larger than `MAX_PIXELS` raises a `UserError` that begins with `where`.
    """
    name = where or ("the image" if isinstance(source, bytes) else str(source))
    with opened(source, name) as image:
        return _pixels(image, size, name)


def size_of(path: Path | str, where: str = "") -> tuple[int, int]:
    """An image file's width and height, before any EXIF rotation; only its header is read."""
    with opened(path, where or str(path)) as image:
        return image.width, image.height


@contextlib.contextmanager
def opened(source: Path | str | bytes, name: str) -> Iterator[Image.Image]:
    """An image to be read in the block; whatever is wrong with it becomes a `UserError` that begins with `name`."""
    try:
        if isinstance(source, bytes):
            with heif.open_image(io.BytesIO(source), name) as image:
                yield image
            return
        with open(source, "rb") as file:  # noqa: PTH123 (str or Path)
            if os.fstat(file.fileno()).st_size == 0:
                raise UserError(f"{name}: the file is empty (0 bytes); {_REMEDY}")
            with heif.open_image(file, name) as image:
                yield image
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{name}: there is no such file; correct the path, or leave it out with --skip-bad") from None
    except (PermissionError, IsADirectoryError) as error:
        raise UserError(f"{name}: the file cannot be read ({error.strerror})") from None
    except Image.DecompressionBombError:
        raise UserError(_too_large(name)) from None
    except UnidentifiedImageError:
        empty = isinstance(source, bytes) and not source
        problem = "the file is empty (0 bytes)" if empty else "this is not an image of a known kind"
        raise UserError(f"{name}: {problem}; {_REMEDY}") from None
    except Exception as error:  # a damaged file can make Pillow's decoders raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name}: the image is damaged or truncated ({reason}); {_REMEDY}") from error


def _too_large(name: str) -> str:
    return f"{name}: the image has more than {MAX_PIXELS // 1_000_000} million pixels; scale it down first"


def _pixels(image: Image.Image, size: int | None, name: str) -> NDArray[np.uint8]:
    if image.width * image.height > MAX_PIXELS:
        raise UserError(_too_large(name))
    box: tuple[float, float, float, float] | None = None
    if size is not None:
        # A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size; at least twice the target leaves the rest to bilinear.
        drafted = image.draft(None, (2 * size, 2 * size))
        box = drafted[1] if drafted else None
    image.load()
    turn = _TURNS.get(_orientation(image))
    rgb = _rgb(image, name)
    if size is not None and (rgb.size != (size, size) or box not in (None, (0, 0, size, size))):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if turn is not None:  # after the resize, where a small square turns faster, into the same picture
        rgb = rgb.transpose(turn)
    return np.array(rgb, dtype=np.uint8)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # the picture may be fine although its EXIF block is broken
        return 1


def _rgb(image: Image.Image, name: str) -> Image.Image:
    mode = image.mode
    if mode.startswith("I"):  # 16-bit greys; `convert` would clip them to white
        grey = np.asarray(image).astype(np.int64)
        if mode != "I" or grey.max() > 255:  # "I" has 32 bits, of which eight may be used
            grey = grey >> 8
        return Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).convert("RGB")
    if mode == "F":
        raise UserError(f"{name}: the pixels are floating-point numbers of unknown range; save the image with 8 bits")
    if mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        over = image.convert("RGBA")
        white = Image.new("RGB", over.size, (255, 255, 255))
        white.paste(over, mask=over.getchannel("A"))
        return white
    return image if mode == "RGB" else image.convert("RGB")


@dataclass(frozen=True)
class ImageFiles:
    """Image files by index; `notes[i]`, if given, is the line that named the file, such as 'train.csv row 7'."""

    paths: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: int, size: int | None = None) -> NDArray[np.uint8]:
        return decode(self.paths[index], size, self.where(index))

    def where(self, index: int) -> str:
        return f"{self.paths[index]} ({self.notes[index]})" if self.notes else self.paths[index]


class Root:
    """The folder that a source may read from. Names that lead out of it, by `..` or by a link, are refused."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._real = os.path.realpath(folder)
        self._parents: dict[str, bool] = {}

    def inside(self, name: str, where: str) -> str:
        """The path of the image `name`, a file in the folder; `where` is the row that named it, for messages."""
        if not name or "\0" in name:
            raise UserError(f"{where}: {name!r} is not a file name")
        path = os.path.normpath(os.path.join(self.folder, name))  # noqa: PTH118 (Path keeps '..')
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise UserError(f"{where}: {name!r} is not a file name: it contains a lone surrogate") from None
        try:
            mode = os.lstat(path).st_mode
            if not self._contains(path, linked=stat.S_ISLNK(mode)):
                raise UserError(
                    f"{where}: {name!r} is outside the data folder {self.folder}; "
                    "copy it in, or give the folder that contains it"
                )
            if stat.S_ISLNK(mode):
                mode = os.stat(path).st_mode  # noqa: PTH116
        except OSError as error:
            if not self._contains(path, linked=False):
                raise UserError(f"{where}: {name!r} is outside the data folder {self.folder}") from None
            reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            raise UserError(f"{where}: the image {name!r} {reason} in {self.folder}") from None
        if not stat.S_ISREG(mode):
            raise UserError(f"{where}: {name!r} is not a file")
        return path

    def _contains(self, path: str, linked: bool) -> bool:
        """Whether `path`, with links resolved, is in the folder; each parent is resolved only once."""
        if linked:
            return self._below(os.path.realpath(path))
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent not in self._parents:
            self._parents[parent] = self._below(os.path.realpath(parent))
        return self._parents[parent]

    def _below(self, real: str) -> bool:
        return real == self._real or real.startswith(self._real.rstrip(os.sep) + os.sep)


def image_names(folder: Path) -> list[str]:
    """The image files below `folder`, as sorted relative names; hidden files are ignored."""
    names: list[str] = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        inside = os.path.relpath(path, folder)
        names += [
            name if inside == "." else f"{inside}/{name}".replace(os.sep, "/")
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        ]
    return sorted(names)


def skip_or_raise(error: UserError, skip_bad: bool, skipped: list[str]) -> None:
    """Add the error of a bad row to `skipped` if bad rows may be skipped; else raise it."""
    if not skip_bad:
        raise error
    skipped.append(str(error))


def rows_word(names: Sequence[str], most: int = 3) -> str:
    """'a, b, c and 4 more'."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
