"""Files that are complete or absent (written under another name, flushed to disk, then renamed), and locks."""

import contextlib
import csv
import errno
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scob.errors import UserError

PART = ".part"
FORMULA = re.compile(r"'*[=+\-@\t\r].", re.DOTALL)
SIGNED_NUMBER = re.compile(r"[+-][\d.,]+(e[+-]?\d+)?\s*%?", re.ASCII | re.IGNORECASE)
DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³")}


def write_atomically(path: Path, content: bytes | str | Sequence[bytes | memoryview]) -> None:
    """Replace `path` by `content`, which may come in pieces.

    A reader, even after a crash, finds either the old file or the new one.
    """
    path = Path(path)
    raw = content.encode() if isinstance(content, str) else content
    pieces = [raw] if isinstance(raw, bytes) else raw
    beside = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except (OSError, MemoryError) as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, MemoryError):
            raise
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


def sealed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the SHA-256 of everything in it as its last entry."""
    return {**tree, "sha256": _json_digest(tree)}


def open_sealed(tree: Any) -> dict[str, Any]:
    """The object without its seal; a ValueError if it is damaged. Files of earlier versions have no seal."""
    if not isinstance(tree, dict):
        raise ValueError("it is not a JSON object")
    content = {key: value for key, value in tree.items() if key != "sha256"}
    if "sha256" in tree and tree["sha256"] != _json_digest(content):
        raise ValueError("it is not as Scob wrote it; if you meant to edit it, remove its sha256")
    return content


def _json_digest(tree: Mapping[str, Any]) -> str:
    plain = json.dumps(json.loads(json.dumps(tree)), sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def guarded(cell: object) -> object:
    """A cell that no spreadsheet runs: an apostrophe before = + - @, tab and return, unless it is a number.

    `unguarded` takes it off again. Cells that begin with such an apostrophe themselves get one more.
    """
    text = str(cell)
    return f"'{text}" if FORMULA.match(text) and not SIGNED_NUMBER.fullmatch(text) else cell


def unguarded(cell: str) -> str:
    """The cell that `guarded` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, guarded against formulas. Rows with a carriage return are quoted, which csv itself does not do."""
    table = io.StringIO()
    plain = csv.writer(table, lineterminator="\n")
    quoted = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in ([guarded(cell) for cell in row] for row in rows):
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


def remove_dead_parts(folder: Path) -> None:
    """Remove unfinished files of processes of this machine that no longer run."""
    import psutil

    for unfinished in folder.glob(f".*{PART}"):
        owner = whole_number(unfinished.name.removesuffix(PART).rpartition(".")[2], 9)
        if owner is not None and owner != os.getpid() and not psutil.pid_exists(owner):
            with contextlib.suppress(OSError):
                unfinished.unlink()


def sync_file(path: Path) -> None:
    """Make a file that another library wrote survive a power cut."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


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


def has_locks(path: Path) -> bool:
    """Whether the file system has locks; `path` is a lock file."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:  # another process has it
        return True
    except OSError:
        with path.open("ab"):  # an OSError about the path itself is the caller's to explain
            return False
    lock.release()
    return True
