"""Write docs/verbs.md from the command line itself (a test checks that it is current)."""

import re
from pathlib import Path
from typing import Any

import typer

from scob import cli

PAGE = Path(__file__).parents[1] / "docs" / "verbs.md"
INTRODUCTION = """# Verbs

Every verb of the command line with its arguments and options: what `scob VERB --help` prints. Each verb except `bench`
is also a function in [Python](api.md). `scob --version` prints what a bug report needs, and `scob --debug VERB ...`
shows the traceback of an error. Wrong input is one sentence on stderr and exit code 2.
"""


def cell(text: object) -> str:
    """Text for a table, without Rich's markup."""
    return re.sub(r"\[/?\w+\]", "", str(text)).replace("|", "\\|").replace("\n", " ")


def default(parameter: Any) -> str:
    """The default of an option, if it says anything."""
    value = parameter.default
    silent = value is None or value is False or value == "" or value == () or callable(value)
    return "" if silent or "Sentinel" in type(value).__name__ else f"`{value}`"


def rows(command: Any) -> list[str]:
    """One row for each argument and option."""
    lines = []
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        argument = parameter.param_type_name == "argument"
        names = [parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
        lines.append(f"| {', '.join(f'`{n}`' for n in names)} | {default(parameter)} | {cell(parameter.help or '')} |")
    return lines


def section(name: str, command: Any) -> str:
    """A verb: its help, and the table of its parameters."""
    table = ["| argument or option | default | meaning |", "|---|---|---|", *rows(command)]
    return f"## `scob {name}`\n\n{cell(command.help or '')}\n\n" + "\n".join(table) + "\n"


def page() -> str:
    """The page as Markdown."""
    app = typer.main.get_command(cli.build())
    sections = []
    for verb in cli.VERBS:
        command = app.commands[verb]  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        sections += [section(verb, command)] if not inner else [section(f"{verb} {n}", c) for n, c in inner.items()]
    return INTRODUCTION + "\n" + "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
