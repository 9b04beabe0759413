"""A process that counts what it does to files, and dies (SIGKILL) at one of these operations."""

import builtins
import contextlib
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.struck import run_main

MOMENTS = ("before", "in the middle of", "after")
WITH_PATHS = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "truncate", "link")
WITH_HANDLES = ("fsync", "ftruncate")
NOT_OURS = "events.out"  # TensorBoard writes these from a thread of its own


class Operations:
    """Every operation of this process on files below `folder`, in order; the process dies at number `deadly`."""

    def __init__(self, folder: Path, deadly: int = 0, moment: str = "before") -> None:
        self.folder, self.deadly, self.moment = os.path.realpath(folder), deadly, moment
        self.names: list[str] = []
        self.open = io.open

    def concerns(self, path: object) -> bool:
        """Whether an operation is on one of our files."""
        try:
            text = Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else os.fspath(path)  # type: ignore[call-overload]
        except (OSError, TypeError):
            return False
        return os.path.abspath(str(text)).startswith(self.folder) and NOT_OURS not in str(text)  # noqa: PTH100

    def do(self, name: str, action: Callable[[], Any], half: Callable[[], object] = lambda: None) -> Any:
        """Count an operation and do it, or die before, in the middle of or after it."""
        self.names.append(name)
        if len(self.names) != self.deadly:
            return action()
        if self.moment == "in the middle of":
            half()
        elif self.moment == "after":
            with contextlib.suppress(OSError):  # it may fail: a folder that exists is made again
                action()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")

    def watch(self) -> None:
        """Begin to count."""
        for name in (*WITH_PATHS, *WITH_HANDLES):
            setattr(os, name, self.counted(name, getattr(os, name)))
        io.open = self.opened  # type: ignore[assignment]
        builtins.open = self.opened  # type: ignore[assignment]

    def counted(self, name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            if not self.concerns(words[0]):
                return action(*words, **more)
            return self.do(name, lambda: action(*words, **more))

        return call

    def opened(self, file: Any, mode: str = "r", *words: Any, **more: Any) -> Any:
        if not set(mode) & set("wax+") or not self.concerns(file):
            return self.open(file, mode, *words, **more)
        return Watched(self.do("open", lambda: self.open(file, mode, *words, **more)), self)


class Watched:
    """An open file whose writes are counted; dying in the middle leaves half of the bytes."""

    def __init__(self, file: Any, operations: Operations) -> None:
        self.file, self.operations = file, operations

    def write(self, content: Any) -> Any:
        def half() -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()

        return self.operations.do("write", lambda: self.file.write(content), half)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "Watched":
        self.file.__enter__()
        return self

    def __exit__(self, *what: Any) -> Any:
        return self.file.__exit__(*what)

    def __iter__(self) -> Any:
        return iter(self.file)


def dies(words: list[str], log: Path, folder: Path, deadly: int, moment: str) -> int:
    """`scob WORDS` in a process of its own that dies at that operation; its exit code."""
    pid = os.fork()
    if not pid:
        Operations(folder, deadly, moment).watch()
        run_main(words, log)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def count(words: list[str], log: Path, folder: Path) -> tuple[int, list[str]]:
    """`scob WORDS`, undisturbed: its exit code and its operations."""
    pid, written = os.fork(), log.with_suffix(".operations")
    if not pid:
        operations = Operations(folder)
        operations.watch()

        def write() -> None:
            with operations.open(written, "w") as file:
                json.dump(operations.names, file)

        run_main(words, log, write)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, json.loads(written.read_text())
