"""Other people's tools for tests: found, or installed into an environment of their own, or the test is skipped."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PATIENCE = 900  # seconds


def python_with(module: str, *packages: str) -> str:
    """A Python that can import `module`."""
    places = [Path(sys.executable), *Path(os.environ.get("SCOB_TOOLS", "/nowhere")).glob("*/bin/python")]
    for python in places:
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True, timeout=PATIENCE).returncode == 0:
            return str(python)
    home = Path(os.environ.get("SCOB_TOOLS") or Path(os.environ.get("TMPDIR", "/tmp")) / "scob-tools") / module
    venv.create(home, with_pip=True)
    done = subprocess.run([home / "bin" / "pip", "install", "-q", *packages], capture_output=True, timeout=PATIENCE)
    if done.returncode:
        pytest.skip(f"{packages[0]} cannot be installed here")
    return str(home / "bin" / "python")
