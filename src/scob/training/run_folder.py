"""The run folder: settings, observed labels, log, checkpoints, model. Only one process writes to it at a time."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import Config, dump, read_yaml, resolve
from scob.errors import UserError
from scob.files import locked, open_sealed, remove_parts, sealed, write_atomically
from scob.labels import Labels
from scob.training.checkpoint import Progress

SEAL = "# SHA-256 of the lines below: "  # the first line of config.yaml


def stored_config(tree: dict[str, Any], where: str) -> Config:
    """The settings of a run as they were written. Its method need not be known here: its model can be used anyway."""
    config = resolve(tree, where, [*methods.section_names(), str(tree.get("method", ""))], stored=True)
    return methods.written_out(config, stored=True)


class RunFolder:
    """Paths and small files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.labels_file = self.path / "labels.safetensors"
        self.log_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.path / "model"
        self.summary_file = self.path / "summary.json"

    @property
    def finished(self) -> bool:
        return self.summary_file.is_file()

    def check_free(self) -> None:
        """Refuse a folder that already contains a run, or that cannot be written."""
        above = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            why = "is not a folder" if not above.is_dir() else "cannot be written"
            raise UserError(f"cannot write the run folder {self.path}: {above} {why}; give another --out")
        if self.config_file.exists():
            raise UserError(
                f"{self.path} already contains a run: continue it with --resume {self.path}, or give another --out"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Reserve the folder for this process: a second run in it is refused. The lock ends with the process.

        A new folder to which nothing was written is removed again, so a misspelt path leaves no run behind.
        """
        lock, new = self.path / ".lock", not self.path.exists()
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                if new:  # last: Windows keeps a folder as long as its lock is open
                    stack.callback(_remove_empty, self.path)
                stack.enter_context(locked(lock, wait=False))
            except BlockingIOError:
                raise UserError(
                    f"another process is writing to the run folder {self.path}: wait for it, or give another --out"
                ) from None
            except OSError as error:
                raise UserError(f"cannot write the run folder {self.path}: {error.strerror}") from error
            for folder in (self.path, self.checkpoints, self.model):
                remove_parts(folder)
            try:
                yield
            finally:
                with suppress(OSError):
                    if new and list(self.path.iterdir()) == [lock]:
                        lock.unlink()

    def write_config(self, config: Config) -> None:
        text = dump(config)
        write_atomically(self.config_file, f"{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}")

    def read_config(self) -> Config:
        """The run's settings, if they are complete and as Scob wrote them. An earlier version did not seal them."""
        if not self.config_file.is_file():
            raise UserError(f"{self.path} is not a run folder: it has no config.yaml")
        tree = read_yaml(self.config_file)
        first, _, text = self.config_file.read_text(encoding="utf-8-sig").partition("\n")
        if first.startswith(SEAL) and first != SEAL + hashlib.sha256(text.encode()).hexdigest():
            raise UserError(
                f"{self.config_file} is not as Scob wrote it (it was cut, damaged or edited): put it back; if you "
                "meant to edit it, delete its first line"
            )
        missing = [name for name in ("method", "data", "labels", "model", "train") if name not in tree]
        if missing:
            raise UserError(f"{self.config_file} is not complete: it does not say {missing[0]!r}; put it back")
        return stored_config(tree, str(self.config_file))

    def labels(self) -> Labels:
        return Labels.load(self.labels_file)

    def sync_log(self) -> tuple[int, str]:
        """Flush the log to disk, so that no checkpoint is ahead of it; returns its size in bytes and its SHA-256."""
        if not self.log_file.exists():
            return 0, hashlib.sha256().hexdigest()
        with self.log_file.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()

    def cut_log(self, progress: Progress) -> str:
        """Drop what was logged after a checkpoint: the resumed run logs the same again.

        If the log is not as it was when the checkpoint was written, keep the lines that can be read and return a
        sentence about it; '' otherwise.
        """
        try:
            logged = self.log_file.read_bytes() if self.log_file.exists() else b""
            kept = logged[: progress.log]
            if len(kept) == progress.log and progress.log_digest in (None, hashlib.sha256(kept).hexdigest()):
                if logged != kept:
                    os.truncate(self.log_file, len(kept))
                return ""
        except OSError as error:
            raise UserError(f"cannot cut {self.log_file}: {error.strerror or error}") from error
        records = [record for record in _readable(logged) if _is_before(record, progress)]
        write_atomically(self.log_file, "".join(json.dumps(record) + "\n" for record in records))
        return (
            f"{self.log_file} is not as it was when the checkpoint was written (it was cut, deleted or changed): the "
            f"{len(records)} lines that can be read are kept, the rest of the log and its curve are lost; the training "
            "itself is not affected"
        )

    def log(self, record: dict[str, Any]) -> None:
        """Append one JSON line."""
        try:
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {self.log_file}: {error.strerror or error}") from error

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of the log, or only those of one kind."""
        if not self.log_file.exists():
            return []
        return [r for r in _readable(self.log_file.read_bytes()) if kind is None or r["kind"] == kind]

    def curve(self) -> list[dict[str, Any]]:
        """What was measured after each epoch."""
        return [{key: r[key] for key in r if key not in ("kind", "time")} for r in self.records("epoch")]

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_atomically(self.summary_file, json.dumps(sealed(summary), indent=1))

    def summary(self) -> dict[str, Any]:
        """The summary.json of a finished run."""
        again = f"scob train --resume {self.path}"
        if not self.finished:
            raise UserError(f"the run in {self.path} is not finished: continue it with {again}")
        try:
            return open_sealed(json.loads(self.summary_file.read_bytes()))
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{self.summary_file} is damaged ({error}): {again} writes it again") from error


def _readable(log: bytes) -> list[dict[str, Any]]:
    """The records in a log; lines that are torn or damaged are left out."""
    records = []
    for line in log.splitlines():
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("kind"), str):
                records.append(record)
    return records


def _is_before(record: dict[str, Any], progress: Progress) -> bool:
    """Whether a record was logged before a checkpoint."""
    step, epoch = record.get("step"), record.get("epoch")
    if isinstance(step, int):
        return step <= progress.step
    return isinstance(epoch, int) and epoch < progress.epoch


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
