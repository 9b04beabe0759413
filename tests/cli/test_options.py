"""Options as records: Typer sees the parameters, the verb gets the record."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from scob.cli.options import check_difficult, whole_numbers, with_options
from scob.errors import UserError


@dataclass(frozen=True)
class Options:
    name: Annotated[str, typer.Argument(help="A name.")]
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="A number.")] = 3
    words: Annotated[list[str], typer.Option(help="Words.")] = field(default_factory=lambda: ["a"])
    loud: Annotated[bool, typer.Option(help="Whether to shout.")] = False


@pytest.fixture
def app_and_calls() -> tuple[typer.Typer, list[Options]]:
    calls: list[Options] = []

    def verb(options: Options) -> None:
        """What the verb does."""
        calls.append(options)

    app = typer.Typer()
    app.command()(with_options(verb))
    return app, calls


def test_the_verb_gets_the_filled_record(app_and_calls: tuple[typer.Typer, list[Options]]) -> None:
    app, calls = app_and_calls
    done = CliRunner().invoke(app, ["me", "-c", "5", "--words", "x", "--words", "y", "--loud"])
    assert done.exit_code == 0
    assert calls == [Options("me", 5, ["x", "y"], True)]


def test_defaults_are_those_of_the_record(app_and_calls: tuple[typer.Typer, list[Options]]) -> None:
    app, calls = app_and_calls
    assert CliRunner().invoke(app, ["me"]).exit_code == 0
    assert calls == [Options("me")]


def test_what_typer_checks_is_still_checked(app_and_calls: tuple[typer.Typer, list[Options]]) -> None:
    app, calls = app_and_calls
    assert CliRunner().invoke(app, []).exit_code == 2  # the argument is required
    assert CliRunner().invoke(app, ["me", "-c", "0"]).exit_code == 2
    assert calls == []


def test_help_has_the_docstring_and_every_field(app_and_calls: tuple[typer.Typer, list[Options]]) -> None:
    text = CliRunner().invoke(app_and_calls[0], ["--help"]).output
    for words in ("What the verb does.", "A name.", "--count", "-c", "A number.", "--words", "--no-loud"):
        assert words in text


def test_lists_of_numbers() -> None:
    assert whole_numbers("80,800") == (80, 800)
    for wrong in ("", "80;800", "0", "a"):
        with pytest.raises(UserError):
            whole_numbers(wrong)


def test_difficult_is_one_of_three() -> None:
    for value in ("positive", "negative", "ignore"):
        check_difficult(value)
    with pytest.raises(UserError, match="--difficult is 'maybe', but it must be positive, negative or ignore"):
        check_difficult("maybe")
