"""Files that are complete or absent (written under another name, flushed to disk, then renamed), and locks."""

import contextlib
import csv
import errno
import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scob.errors import UserError

PART = ".part"
DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³")}


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content`: a reader, even after a crash, finds either the old file or the new one."""
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
    """`path`, or NAME-2, NAME-3 and so on if it is taken."""
    suffix = "" if path.is_dir() else path.suffix
    free, number = path, 2
    while os.path.lexists(free):
        free, number = path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}"), number + 1
    return free


def portable_name(name: str) -> str:
    """The name with only characters that every file system accepts; never a name that Windows keeps for a device."""
    plain = re.sub(r"[^\w.-]+", "_", name.encode("utf-8", "replace").decode()).strip(".")[:80].rstrip(".") or "_"
    return f"_{plain}" if plain.partition(".")[0].upper() in DEVICES else plain


def named(path: Path) -> Path:
    """The same path, ending in a real name: '.' and '..' are resolved."""
    return path if path.name not in ("", "..") else path.resolve()


def fingerprint(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV. Rows with a carriage return are quoted as well, which the csv module does not do by itself."""
    table = io.StringIO()
    plain = csv.writer(table, lineterminator="\n")
    quoted = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        (quoted if any("\r" in str(cell) for cell in row) else plain).writerow(row)
    return table.getvalue()


def whole_number(text: str, digits: int = 18) -> int | None:
    """The number that `text` writes in at most `digits` plain ASCII digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def remove_parts(folder: Path) -> None:
    """Remove unfinished files that killed processes left behind; only for a folder nobody else is writing to."""
    for unfinished in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            unfinished.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut, where the system can flush a folder (Windows cannot)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock file `path`; the lock ends with the process. Without `wait`, BlockingIOError if another holds it.

    Where the file system has no locks (some network shares), everybody goes ahead.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=-1 if wait else 0, fallback_to_soft=False)
    try:
        lock.acquire(poll_interval=0.01)
    except Timeout:
        raise BlockingIOError(errno.EWOULDBLOCK, "held by another process", str(path)) from None
    except OSError:
        with path.open("ab"):  # an OSError about the path itself is the caller's to explain
            pass
    try:
        yield
    finally:
        lock.release()
