"""Files that are either whole or not there: written beside, flushed to disk, then renamed."""

import contextlib
import csv
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from scob.errors import UserError

PART = ".part"


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content`: a reader, or a crash, sees the old file or the new one and nothing between."""
    path = Path(path)
    raw = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def free_path(path: Path) -> Path:
    """`path`, or NAME-2, NAME-3 and so on where that is taken."""
    end = "" if path.is_dir() else path.suffix
    free, number = path, 2
    while os.path.lexists(free):
        free, number = path.with_name(f"{path.name.removesuffix(end)}-{number}{end}"), number + 1
    return free


def named(path: Path) -> Path:
    """The same place by a path that ends in its name, which '.' and '..' do not."""
    return path if path.name not in ("", "..") else path.resolve()


def fingerprint(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV. What holds a carriage return is quoted as well, which the writer by itself does not do."""
    table = io.StringIO()
    plain = csv.writer(table, lineterminator="\n")
    quoted = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        (quoted if any("\r" in str(cell) for cell in row) else plain).writerow(row)
    return table.getvalue()


def whole_number(text: str, digits: int = 18) -> int | None:
    """The number that plain ASCII digits write; None for anything else, and for more than `digits` of them."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def remove_parts(folder: Path) -> None:
    """Remove what processes that were killed had begun to write; only for a folder that nobody else writes."""
    for left in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            left.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
