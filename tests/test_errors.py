"""The words that errors are made of."""

import pickle

from scob.errors import UserError, first_line, nearest, printable


def test_the_nearest_name_is_suggested_or_none() -> None:
    assert nearest("trian", ["train", "data"]) == " Did you mean 'train'?"
    assert nearest("epoch", ["train.epochs", "data.size"]) == " Did you mean 'train.epochs'?"  # without its section
    assert nearest("qqqq", ["train", "data"]) == ""
    assert nearest("train", []) == ""


def test_a_message_that_quotes_a_long_value_is_shortened_in_its_middle() -> None:
    error = UserError(f"a.csv row 2: {'x' * 1_000_000} is not a state; write 1, -1 or 0")
    text = str(error)
    assert len(text) == 1_000
    assert text.startswith("a.csv row 2: xxx") and text.endswith("xxx is not a state; write 1, -1 or 0")
    assert "x ... x" in text
    assert str(pickle.loads(pickle.dumps(error))) == text  # as a worker process sends it
    assert str(UserError(f"--val {text}")).count(" ... ") == 1


def test_a_message_of_usual_length_is_left_as_it_is() -> None:
    assert str(UserError("y" * 1_000)) == "y" * 1_000


def test_the_first_line_of_a_message() -> None:
    assert first_line(ValueError("\n no such file\nsecond line")) == "no such file"
    assert first_line(KeyError()) == "KeyError"


def test_control_characters_are_written_out() -> None:
    assert printable("\x1b]0;title\x07 name\n\tnext") == "\\x1b]0;title\\x07 name\n\tnext"
    assert printable("\x9b31m\x7f\r") == "\\x9b31m\\x7f\\x0d"
    assert printable("caf\u00e9 \u732b") == "caf\u00e9 \u732b"
