"""What a person decided, in a log that only grows.

`decisions.jsonl` is flushed to disk line by line. The latest line of an (image, class) pair counts; `undo`
makes the pair undecided again.
"""

import contextlib
import csv
import errno
import fcntl
import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob.errors import UserError
from scob.files import csv_text, free_path, write_atomically
from scob.recovery.suggestion import Pair, text

DECISIONS, REVIEWED = "decisions.jsonl", "reviewed.csv"
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
    order: int = 0  # by the session's own clock: a later decision of the same session has a greater one

    @property
    def pair(self) -> Pair:
        return self.image, self.label

    def line(self) -> str:
        """The line as it is stored."""
        fields = {"image": self.image, "class": self.label, "decision": self.decision}
        return json.dumps({**fields, "time": self.time, "session": self.session, "order": self.order}) + "\n"


class DecisionLog:
    """The decisions of one folder. Threads, and several servers on one folder, may share it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / DECISIONS
        self.lines: list[Decision] = []
        self.latest: dict[Pair, Decision] = {}
        self._offset = self._row = self._inode = 0
        self._lock = threading.RLock()
        self.refresh()

    def refresh(self) -> None:
        """Take in what has been appended since, by whomever. A torn last line is left for its writer."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    if status.st_ino != self._inode or status.st_size < self._offset:  # another file: start afresh
                        self._reset(status.st_ino)
                    if status.st_size > self._offset:
                        file.seek(self._offset)
                        self._take(file.read())
            except FileNotFoundError:
                self._reset()
            except OSError as error:
                raise UserError(f"cannot read {self.path}: {error.strerror or error}") from error

    def append(self, decision: Decision) -> None:
        """Write one line and return when it is on the disk; on failure the log is as it was before."""
        with self._lock:
            try:
                with self.path.open("a+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    self._mend(file)
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

    def check_writable(self) -> None:
        """Fail before the first decision rather than at it."""
        try:
            with self.path.open("ab"):
                pass
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error

    def state(self) -> dict[Pair, str]:
        """The decision of every pair that has one."""
        with self._lock:
            return {pair: d.decision for pair, d in self.latest.items() if d.decision != UNDO}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads of this process away, so that look-then-append is one step."""
        with self._lock:
            self.refresh()
            yield

    def _take(self, raw: bytes) -> None:
        whole = raw.rfind(b"\n") + 1
        rest = raw[whole:]
        if rest and _is_json(rest):  # whole but for its newline; otherwise torn by a kill, or about to be finished
            whole = len(raw)
        rows = raw[:whole].split(b"\n")
        made = [self._decision(row, self._row + number) for number, row in enumerate(rows, 1) if row.strip()]
        self._offset += whole
        self._row += raw[:whole].count(b"\n")
        self.lines.extend(made)
        self.latest.update((decision.pair, decision) for decision in made)

    def _decision(self, line: bytes, number: int) -> Decision:
        try:
            row = json.loads(line)
            if row["decision"] not in ANSWERS:
                raise ValueError(f"{row['decision']!r} is no decision")
            pair = text(row["image"], "image"), text(row["class"], "class")
            time, session, order = str(row.get("time", "")), str(row.get("session", "")), int(row.get("order", 0))
            return Decision(*pair, row["decision"], time, session, order)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise UserError(
                f"{self.path}, line {number} is damaged; mend or remove that line, the others count"
            ) from None

    def _reset(self, inode: int = 0) -> None:
        self.lines, self.latest, self._offset, self._row, self._inode = [], {}, 0, 0, inode

    @staticmethod
    def _mend(file: Any) -> None:
        """Before appending: finish a last line that lacks only its newline, cut off one that is torn."""
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - 65536)
        file.seek(start)
        tail = file.read(size - start)
        if not tail or tail.endswith(b"\n"):
            return
        torn = tail[tail.rfind(b"\n") + 1 :]
        if _is_json(torn):
            file.write(b"\n")
        else:
            os.ftruncate(file.fileno(), size - len(torn))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def decisions(folder: Path) -> dict[Pair, str]:
    """What was decided: (image, class) -> accept, reject or skip. Undone pairs are not in it."""
    return DecisionLog(folder).state()


def write_reviewed(log: DecisionLog) -> Path:
    """Write `reviewed.csv` (image, label, state: +1 accepted, -1 rejected) for `scob recover --import`."""
    set_aside(log)
    path = log.path.with_name(REVIEWED)
    write_atomically(path, reviewed_table(log.state()))
    return path


def set_aside(log: DecisionLog) -> Path | None:
    """Give a `reviewed.csv` that says what was never decided here another name, and return that: it is not ours."""
    path = log.path.with_name(REVIEWED)
    try:
        raw = path.read_bytes()
        log.refresh()  # after the reading: whatever a server writes into the table was in the log before
        if _rows(raw) <= {HEADER, *((*d.pair, SIGNS[d.decision]) for d in log.lines if d.decision in SIGNS)}:
            return None
        while True:
            aside = free_path(path)
            try:
                os.link(path, aside)  # unlike a rename it cannot take the place of what another process has kept
            except FileExistsError:
                continue
            path.unlink(missing_ok=True)
            return aside
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot keep {path}: {error.strerror or error}; move it away first") from error


def _rows(raw: bytes) -> set[tuple[str, ...]]:
    """The rows of a table, such as they are; empty lines do not count."""
    lines = csv.reader(io.StringIO(raw.decode("utf-8-sig", "surrogateescape"), newline=""))
    try:
        return {tuple(cells) for cells in lines if cells}
    except csv.Error:
        return {("not a table",)}


def reviewed_table(state: Mapping[Pair, str]) -> bytes:
    """The reviewed labels as CSV, in the order of image and class; what was skipped is left out."""
    signed = ((*pair, SIGNS[answer]) for pair, answer in sorted(state.items()) if answer in SIGNS)
    return csv_text([HEADER, *signed]).encode("utf-8", "surrogateescape")
