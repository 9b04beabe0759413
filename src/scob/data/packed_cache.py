"""The packed cache: every image of a source at training size, in one memory-mapped file shared by all runs."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.images import ImageFiles
from scob.data.progress import Progress
from scob.errors import UserError
from scob.files import locked, remove_dead_parts, sync_folder, write_atomically

FORMAT = "scob-packed-1"  # rename it whenever `decode` changes the pixels of a file
# Batches of rows -> pixels (B, 3, S, S) and, by position in the batch, what could not be decoded.
Decoder = Callable[[Iterator[NDArray[np.int64]]], Iterator[tuple[NDArray[np.uint8], list[tuple[int, str]]]]]


@dataclass(frozen=True)
class Packed:
    """An open cache: `pixels[i]` is image i (3, S, S); `bad[i]` is the reason why image i is black."""

    pixels: NDArray[np.uint8]
    bad: dict[int, str]
    path: Path


def fingerprint(files: ImageFiles, size: int) -> str:
    """SHA-256 of the path, length and time of change of every file, and of the size they are packed at."""
    digest = hashlib.sha256(f"{FORMAT} {size}\n".encode())
    for path in files.paths:
        try:
            status = os.stat(path)  # noqa: PTH116 (a hundred thousand Path objects cost more than the stats)
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="surrogateescape"))
        except OSError:
            digest.update(f"{path}\0missing\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def open_packed(
    files: ImageFiles, size: int, folder: Path, decoder: Decoder, progress: Progress | None = None
) -> Packed:
    """The cache of these files at this size; built first if it does not exist or a file has changed."""
    names = "\0".join([os.path.abspath(p) for p in files.paths])  # noqa: PTH100
    key = f"{hashlib.sha256(names.encode(errors='surrogateescape')).hexdigest()[:16]}-{size}"
    manifest = folder / f"{key}.json"
    current = fingerprint(files, size)
    packed = _open(manifest, current, len(files), size)
    if packed is not None:
        return packed
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the cache folder {folder}: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / f"{key}.lock"))  # one process builds at a time
        except OSError as error:
            raise UserError(f"cannot write to the cache folder {folder}: {error.strerror}") from error
        packed = _open(manifest, current, len(files), size)  # another run may have built it in the meantime
        if packed is None:
            _build(files, size, manifest, current, decoder, progress)
            packed = _open(manifest, current, len(files), size)
    if packed is None:
        raise UserError(f"the cache {manifest} changed while it was being opened; run the same command again")
    return packed


def _open(manifest: Path, current: str, count: int, size: int) -> Packed | None:
    """The cache that `manifest` describes, or None if it is missing, out of date or damaged."""
    try:
        entry = json.loads(manifest.read_text(encoding="utf-8"))
        if entry["format"] != FORMAT or entry["fingerprint"] != current:
            return None
        path = manifest.parent / Path(entry["file"]).name
        shape = (count, 3, size, size)
        if path.stat().st_size != int(np.prod(shape)):
            return None
        bad = {int(row): str(why) for row, why in entry["bad"].items()}
        return Packed(np.memmap(path, np.uint8, "r", shape=shape), bad, path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _build(
    files: ImageFiles, size: int, manifest: Path, current: str, decoder: Decoder, progress: Progress | None
) -> None:
    folder, count = manifest.parent, len(files)
    needed = count * 3 * size * size
    if shutil.disk_usage(folder).free < needed:
        raise UserError(
            f"the cache of {count} images at {size} x {size} needs {needed / 1e9:.1f} GB, more than {folder} has: "
            "free some space, or set data.cache to another folder"
        )
    beside = folder / f".{manifest.stem}.{os.getpid()}.part"
    remove_dead_parts(folder)
    bad: dict[int, str] = {}
    batches = (np.arange(i, min(i + 64, count), dtype=np.int64) for i in range(0, count, 64))
    done = 0
    try:
        with beside.open("wb") as out:
            for pixels, failures in decoder(batches):
                bad.update({done + position: why for position, why in failures})
                out.write(np.ascontiguousarray(pixels).data)
                done += len(pixels)
                if progress is not None:
                    progress(done, count)
            out.flush()
            os.fsync(out.fileno())
        path = folder / f"{manifest.stem}-{current[:16]}.u8"
        beside.replace(path)
        sync_folder(folder)
        entry = {"format": FORMAT, "fingerprint": current, "file": path.name, "bad": bad}
        write_atomically(manifest, json.dumps(entry, indent=1))
    except OSError as error:
        raise UserError(f"cannot write the cache {beside}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
    for old in folder.glob(f"{manifest.stem}-*.u8"):  # runs that still map an old file keep it
        if old != path:
            with contextlib.suppress(OSError):
                old.unlink()
