"""Where the targets write their files: in memory if the system has such a folder."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def scratch_home() -> Path:
    """The folder of all targets, removed at the end of the process that asked for it first."""
    shared = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="scob-fuzz-", dir=shared if shared.is_dir() else None))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


@cache
def scratch(name: str) -> Path:
    """An empty folder for one target."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch_home()))
