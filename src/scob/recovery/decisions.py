"""A reviewer's decisions, in a log that is only ever appended to.

Each line of `decisions.jsonl` is flushed to disk. The latest line of an (image, class) pair counts; `undo` makes the
pair undecided again.
"""

import atexit
import contextlib
import csv
import errno
import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import SoftFileLock, Timeout

from scob.errors import UserError
from scob.files import csv_text, free_path, has_locks, locked, remove_dead_parts, unguarded, write_atomically
from scob.recovery.suggestion import Pair, text

DECISIONS, REVIEWED, LOCK = "decisions.jsonl", "reviewed.csv", ".decisions.lock"
ACCEPT, REJECT, SKIP, UNDO = "accept", "reject", "skip", "undo"
ANSWERS = (ACCEPT, REJECT, SKIP, UNDO)
HEADER, SIGNS = ("image", "label", "state"), {ACCEPT: "+1", REJECT: "-1"}


@dataclass(frozen=True)
class Decision:
    """One line of the log."""

    image: str
    label: str
    decision: str
    time: str = ""
    session: str = ""
    order: int = 0  # grows within a session, by its own clock

    @property
    def pair(self) -> Pair:
        return self.image, self.label

    def line(self) -> str:
        """The line as it is stored."""
        fields = {"image": self.image, "class": self.label, "decision": self.decision}
        return json.dumps({**fields, "time": self.time, "session": self.session, "order": self.order}) + "\n"


class DecisionLog:
    """The decisions of one folder. Several threads may share a log, and several servers a folder."""

    def __init__(self, folder: Path, name: str = DECISIONS) -> None:
        self.path, self._lock_file = folder / name, folder / LOCK
        self.lines: list[Decision] = []
        self.latest: dict[Pair, Decision] = {}
        self._offset = self._row = self._inode = 0
        self._lock = threading.RLock()
        self._alone: SoftFileLock | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read what any process has appended since the last time. An unfinished last line is left for later."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    if (
                        status.st_ino != self._inode or status.st_size < self._offset
                    ):  # another file: read it from the start
                        self._reset(status.st_ino)
                    if status.st_size > self._offset:
                        file.seek(self._offset)
                        self._take(file.read())
            except FileNotFoundError:
                self._reset()
            except OSError as error:
                raise UserError(f"cannot read {self.path}: {error.strerror or error}") from error

    def append(self, decision: Decision) -> None:
        """Write one line and return when it is on disk; if that fails, the log is as it was before."""
        with self._lock:
            try:
                lock = locked(self._lock_file) if self._alone is None else contextlib.nullcontext()
                with lock, self.path.open("a+b", buffering=0) as file:
                    self._finish_last_line(file)
                    size = os.fstat(file.fileno()).st_size
                    try:
                        line = decision.line().encode()
                        if file.write(line) != len(line):
                            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                        os.fsync(file.fileno())
                    except OSError:
                        with contextlib.suppress(OSError):
                            os.ftruncate(file.fileno(), size)
                        raise
            except OSError as error:
                raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error
            self.refresh()

    def check_writable(self) -> str:
        """Fail now rather than at the first decision. Returns a sentence for the user, or ''.

        On a file system without locks (some network shares) only one process may write: this one, from now on.
        """
        try:
            with self.path.open("ab"):
                if has_locks(self._lock_file):
                    return ""
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error
        marker = self.path.with_name(f".{self.path.name}.writer")
        alone = SoftFileLock(marker)
        try:
            alone.acquire(timeout=0)
        except (Timeout, OSError) as error:
            raise UserError(
                f"another review is writing to {self.path.parent}, and this file system has no locks, so there can be "
                f"only one: stop it, or, if it is no longer running, remove {marker}"
            ) from error
        self._alone = alone
        atexit.register(alone.release, force=True)
        return "This file system has no locks: until this review ends, no other can write to the same folder."

    def state(self) -> dict[Pair, str]:
        """The decision about every pair that has one."""
        with self._lock:
            return {pair: d.decision for pair, d in self.latest.items() if d.decision != UNDO}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads of this process out, so that reading and then appending is one step."""
        with self._lock:
            self.refresh()
            yield

    def _take(self, raw: bytes) -> None:
        end = raw.rfind(b"\n") + 1
        rest = raw[end:]
        if rest and _is_json(rest):  # complete except for its newline; otherwise cut off, or still being written
            end = len(raw)
        rows = raw[:end].split(b"\n")
        new = [self._decision(row, self._row + number) for number, row in enumerate(rows, 1) if row.strip()]
        self._offset += end
        self._row += raw[:end].count(b"\n")
        self.lines.extend(new)
        self.latest.update((decision.pair, decision) for decision in new)

    def _decision(self, line: bytes, number: int) -> Decision:
        try:
            row = json.loads(line)
            if row["decision"] not in ANSWERS:
                raise ValueError(f"{row['decision']!r} is not a decision")
            pair = text(row["image"], "image"), text(row["class"], "class")
            time, session, order = str(row.get("time", "")), str(row.get("session", "")), int(row.get("order", 0))
            return Decision(*pair, row["decision"], time, session, order)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise UserError(
                f"{self.path}, line {number} is damaged; fix or remove that line, the other lines still count"
            ) from None

    def _reset(self, inode: int = 0) -> None:
        self.lines, self.latest, self._offset, self._row, self._inode = [], {}, 0, 0, inode

    @staticmethod
    def _finish_last_line(file: Any) -> None:
        """Before appending: add a missing newline to a complete last line, remove an incomplete one."""
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - 65536)
        file.seek(start)
        tail = file.read(size - start)
        if not tail or tail.endswith(b"\n"):
            return
        last = tail[tail.rfind(b"\n") + 1 :]
        if _is_json(last):
            file.write(b"\n")
        else:
            os.ftruncate(file.fileno(), size - len(last))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def decisions_in(folder: Path) -> dict[Pair, str]:
    """The decisions in a folder: (image, class) -> accept, reject or skip. Undone pairs are left out."""
    return DecisionLog(folder).state()


def write_reviewed(log: DecisionLog) -> Path:
    """Write `reviewed.csv` (image, label, state: +1 accepted, -1 rejected) for `scob recover --import`."""
    set_aside(log)
    remove_dead_parts(log.path.parent)
    path = log.path.with_name(REVIEWED)
    write_atomically(path, reviewed_table(log.state()))
    return path


def set_aside(log: DecisionLog) -> Path | None:
    """Rename a `reviewed.csv` with decisions that are not in the log; returns the new path, or None."""
    path = log.path.with_name(REVIEWED)
    try:
        raw = path.read_bytes()
        log.refresh()  # after reading the table: what a server writes there is in its log already
        if _rows(raw) <= {HEADER, *((*d.pair, SIGNS[d.decision]) for d in log.lines if d.decision in SIGNS)}:
            return None
        while True:
            aside = free_path(path)
            try:
                os.link(path, aside)  # unlike a rename, it never replaces a file of another process
            except FileExistsError:
                continue
            path.unlink(missing_ok=True)
            return aside
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot keep {path}: {error.strerror or error}; move it out of the way first") from error


def _rows(raw: bytes) -> set[tuple[str, ...]]:
    """The rows of a table, unchecked; empty lines do not count."""
    lines = csv.reader(io.StringIO(raw.decode("utf-8-sig", "surrogateescape"), newline=""))
    try:
        return {tuple(unguarded(cell) for cell in cells) for cells in lines if cells}
    except csv.Error:
        return {("not a table",)}


def reviewed_table(state: Mapping[Pair, str]) -> bytes:
    """The reviewed labels as CSV, sorted by image and class; skipped pairs are left out."""
    signed = ((*pair, SIGNS[answer]) for pair, answer in sorted(state.items()) if answer in SIGNS)
    return csv_text([HEADER, *signed]).encode("utf-8", "surrogateescape")
