"""What verbs print with."""

import io
import shlex

import pytest
from rich.console import Console

from scob.cli import console


def test_a_command_can_be_copied_into_a_shell() -> None:
    text = console.command("review", "my run/it's", "[x]")
    assert shlex.split(text) == ["scob", "review", "my run/it's", "[x]"]


def test_counted() -> None:
    assert console.counted(1, "image") == "1 image"
    assert console.counted(1200, "class", "classes") == "1,200 classes"


@pytest.mark.parametrize(
    ("seconds", "words"), [(40, "40 seconds"), (89, "89 seconds"), (600, "10 minutes"), (12_600, "3.5 hours")]
)
def test_duration(seconds: float, words: str) -> None:
    assert console.duration(seconds) == words


def test_only_the_first_process_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert console.prints()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not console.prints()


def test_control_characters_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "cat\x1b]0;owned\x07\x9b2J"
    console.note(name)
    console.complain(name)
    console.out.print(console.table("t", ("a",), [(name,)]))
    printed = "".join(capsys.readouterr())
    assert "\x1b]0" not in printed and "\x07" not in printed and "\x9b" not in printed
    assert printed.count("\\x1b]0;owned") == 3


def test_notes_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console.note("runs/[bold]x[/bold] " + "long " * 60)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("runs/[bold]x[/bold]") and printed.err.count("\n") == 1


def test_a_table_shows_brackets() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(console.table("T", ("class", "n"), [("[cat]", 3)]))
    assert "[cat]" in stream.getvalue()


def test_what_was_named_in_words() -> None:
    words = console.what_was_named({"person": 1200, "dog": 3, "car": 2, "cat": 1}, 600)
    assert words == ", 2.0 labels per image; most frequent: person (1,200), dog (3), car (2)"
    assert console.what_was_named({}, 4) == ", 0.0 labels per image" and console.what_was_named({}, 0) == ""


def test_a_sentence_has_a_capital_and_a_full_stop() -> None:
    assert console.sentence("results are measured on val") == "Results are measured on val."


def test_the_best_numbers_of_a_table_are_bold() -> None:
    best = console.best_cells([[70.0, None], [80.0, 1.0], [75.0, float("nan")]])
    assert best == {(1, 1)}  # one known number is not the best of several
    drawn = console.table("t", ("method", "mAP"), [("a", "70"), ("b", "80")], {(1, 1)})
    assert list(drawn.columns[1].cells) == ["70", "[bold]80[/]"]
