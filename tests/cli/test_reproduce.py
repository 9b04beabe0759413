"""`scob reproduce` as a user runs it."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from scob.cli import build
from scob.cli.reproduce import backbone_files
from scob.errors import UserError
from scob.studies.reproduce.registry import REPRODUCTIONS


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("reproduce") == [
        "--data",
        "--backbone",
        "--seeds",
        "--epochs",
        "--out",
        "--config",
        "--paper-parity",
        "--backbone-file",
        "--methods",
        "--list",
    ]


def test_the_verb_lists_and_complains() -> None:
    done = CliRunner().invoke(build(), ["reproduce", "--list"], catch_exceptions=False)
    assert done.exit_code == 0 and all(name in done.stdout for name in REPRODUCTIONS)
    with pytest.raises(UserError, match="NAME=FILE"):
        CliRunner().invoke(build(), ["reproduce", "table-contrastive", "--backbone-file", "x"], catch_exceptions=False)


def test_files_by_name() -> None:
    assert backbone_files(["detco=a.pth", "soco=b=c.pth"]) == {"detco": "a.pth", "soco": "b=c.pth"}
    with pytest.raises(UserError, match="write NAME=FILE"):
        backbone_files(["detco="])


def test_without_a_name_the_list_is_shown_and_the_exit_code_is_2(scob: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = scob("reproduce")
    assert code == 2
    assert "table-main" in out and "name a table or figure" in err
