"""A backbone folder with Python code of its own: nobody is asked whether to run it, and it never runs."""

import json
import os
import pty
import select
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.model.load_backbone import load_backbone
from support.struck import ENVIRONMENT

CODE = """
from pathlib import Path
Path({mark!r}).write_text("ran")
from transformers import ResNetConfig
class OwnConfig(ResNetConfig):
    model_type = "own"
"""


@pytest.fixture
def own_code(tmp_path: Path) -> tuple[Path, Path]:
    """A folder whose config.json names a class in its own Python file, and the file that this code would write."""
    folder, mark = tmp_path / "backbone", tmp_path / "ran"
    folder.mkdir()
    named = {"AutoConfig": "own.OwnConfig", "AutoBackbone": "own.OwnBackbone"}
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": named}))
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    return folder, mark


def answered_yes(command: list[str], seconds: float = 120) -> tuple[int, str]:
    """Run a command on a terminal whose user answers 'y' to everything; its exit code and what it printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**ENVIRONMENT, "COLUMNS": "400"})
    os.write(terminal, b"y\n" * 3)  # ahead of any question: the terminal keeps it until somebody reads
    printed, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                block = os.read(terminal, 65536)
            except OSError:  # the other side was closed
                break
            printed += block
            if not block:
                break
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed.decode()


def test_a_folder_with_code_is_never_asked_about_and_never_runs(
    own_code: tuple[Path, Path], small_words: tuple[str, ...], tmp_path: Path, faults: Any
) -> None:
    folder, mark = own_code
    words = [word for word in small_words if not word.startswith("model.backbone=")]
    command = [sys.executable, "-m", "scob", "train", *words, f"model.backbone={folder}", "--out"]
    with faults.inject("backbone folder with Python code", told=True):
        code, printed = answered_yes([*command, str(tmp_path / "run")])
        assert not mark.exists()
        assert "inspect the repository" not in printed  # how transformers begins its question
        assert code == 2, printed
        assert "its own Python code, which Scob never runs" in " ".join(printed.split())
        assert "Traceback" not in printed


def test_python_refuses_it_too(own_code: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, mark = own_code
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(UserError, match="which Scob never runs"):
        load_backbone(str(folder))
    assert not mark.exists()
