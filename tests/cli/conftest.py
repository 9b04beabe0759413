"""The command line in this process: its exit code, its output, and the options that a verb shows."""

import re
import sys
from collections.abc import Callable

import pytest

from scob import cli

Scob = Callable[..., tuple[int, str, str]]


@pytest.fixture
def scob(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Scob:
    """`scob("train", "--help")` -> exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["scob", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def options_of(scob: Scob) -> Callable[..., list[str]]:
    """The options in a verb's help, in order, without --help."""

    def listed(*verb: str) -> list[str]:
        code, text, _ = scob(*verb, "--help")
        assert code == 0
        names = re.findall(r"^│ (--[\w-]+)", text, re.MULTILINE)
        assert names.pop() == "--help"
        return names

    return listed


@pytest.fixture
def refused(scob: Scob) -> Callable[..., str]:
    """What a wrong use prints: one sentence on stderr, exit code 2, nothing on stdout."""

    def run(*words: object) -> str:
        code, out, err = scob(*words)
        assert (code, out) == (2, "")
        assert err.startswith("scob: ") and "Traceback" not in err and err.count("\n") == 1
        return err

    return run
