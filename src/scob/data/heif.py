"""HEIC and HEIF, the photographs that phones make: Pillow reads them if pillow-heif is installed."""

from functools import cache
from typing import IO

from PIL import Image, UnidentifiedImageError

from scob.errors import UserError
from scob.installation import install_line

SUFFIXES = frozenset((".heic", ".heif", ".hif"))
BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
NEEDED = "this is a HEIC photograph, and reading those needs pillow-heif"


def is_heif(head: bytes) -> bool:
    """Whether a file that begins with these bytes is HEIC or HEIF."""
    return head[4:8] == b"ftyp" and head[8:12] in BRANDS


@cache
def register() -> bool:
    """Teach Pillow to read HEIC; False if pillow-heif is not installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


def open_image(file: IO[bytes], name: str) -> Image.Image:
    """`Image.open`, which also knows HEIC; `name` begins the message if it cannot be read here."""
    try:
        return Image.open(file)
    except UnidentifiedImageError:
        file.seek(0)
        if not is_heif(file.read(12)):
            raise
        if not register():
            raise UserError(f"{name}: {NEEDED}: {install_line('heic')}") from None
        file.seek(0)
        return Image.open(file)
