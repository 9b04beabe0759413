"""The run folder: settings, observed labels, log, checkpoints, model. Only one process writes to it at a time."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import Config, dump, read_yaml, resolve
from scob.errors import UserError
from scob.files import locked, remove_parts, write_atomically
from scob.labels import Labels


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
        """Refuse a folder that already contains a run."""
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
        write_atomically(self.config_file, dump(config))

    def read_config(self) -> Config:
        """The run's settings. Its method need not be known here: its model can be used all the same."""
        if not self.config_file.is_file():
            raise UserError(f"{self.path} is not a run folder: it has no config.yaml")
        tree = read_yaml(self.config_file)
        sections = [*methods.section_names(), str(tree.get("method", ""))]
        return resolve(tree, str(self.config_file), sections, stored=True)

    def labels(self) -> Labels:
        return Labels.load(self.labels_file)

    def sync_log(self) -> int:
        """Flush the log to disk, so that no checkpoint is ahead of it; returns its size in bytes."""
        if not self.log_file.exists():
            return 0
        with self.log_file.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def cut_log(self, size: int) -> None:
        """Drop what was logged after a checkpoint: the resumed run logs the same again."""
        current = self.log_file.stat().st_size if self.log_file.exists() else 0
        if current < size:
            raise UserError(
                f"{self.log_file} has {current} bytes, but had {size} when the checkpoint was written: put it back, "
                "or start the run again in a new folder"
            )
        if current:
            with self.log_file.open("r+b") as file:
                file.truncate(size)

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
        records = [json.loads(line) for line in self.log_file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [r for r in records if kind is None or r["kind"] == kind]

    def summary(self) -> dict[str, Any]:
        """The summary.json of a finished run."""
        if not self.finished:
            raise UserError(f"the run in {self.path} is not finished: continue it with scob train --resume {self.path}")
        summary: dict[str, Any] = json.loads(self.summary_file.read_text(encoding="utf-8"))
        return summary


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
