"""The generated pages are current, and every `scob` command in the documentation is one that Scob accepts."""

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from scob import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_page_of_verbs_is_current() -> None:
    spec = importlib.util.spec_from_file_location("verbs_page", ROOT / "scripts" / "verbs_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8") == module.page()


def commands_of(page: Path) -> list[str]:
    """The commands in a page's code: lines of blocks, and `scob ...` in a sentence."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```(?:sh|console|bash)?\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"^(?:\$ )?(scob .+)$", blocks, re.MULTILINE) + re.findall(r"`(scob [^`]+)`", outside)


def check(app: Any, line: str) -> None:
    """Raise if the verb or one of the options does not exist."""
    words = shlex.split(re.split(r"\s+#|&&|\||;", line)[0].replace("...", ""))[1:]
    words = [word for word in words if word != "--debug"]
    command = app
    while words and getattr(command, "commands", None) and not words[0].startswith("-") and words[0].islower():
        if words[0] not in command.commands:
            raise AssertionError(f"there is no verb {words[0]!r}")
        command = command.commands[words.pop(0)]
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("-") and len(option) > 1 and not re.match(r"-\d", option) and option not in known:
            raise AssertionError(f"there is no option {option}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_the_documentation_exists(page: Path) -> None:
    app = typer.main.get_command(cli.build())
    for line in commands_of(page):
        try:
            check(app, line)
        except (AssertionError, ValueError) as error:
            pytest.fail(f"{page.name}: {line}: {error}")


def test_a_wrong_command_is_noticed() -> None:
    app = typer.main.get_command(cli.build())
    for wrong in ("scob trian", "scob train --passes 3", "scob data descrive x"):
        with pytest.raises(AssertionError):
            check(app, wrong)
    check(app, "scob data describe VOC2007 --json  # counts")
