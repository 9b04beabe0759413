"""`scob serve` as a real process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(model: Path, *words: object) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process, and the address it serves on; it is ended if it still runs."""
    command = [sys.executable, "-m", "scob", "serve", str(model), *map(str, words), "--port", "0"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
