"""The words that errors are made of."""

from scob.errors import first_line, nearest, printable


def test_the_nearest_name_is_suggested_or_none() -> None:
    assert nearest("trian", ["train", "data"]) == " Did you mean 'train'?"
    assert nearest("epoch", ["train.epochs", "data.size"]) == " Did you mean 'train.epochs'?"  # without its section
    assert nearest("qqqq", ["train", "data"]) == ""
    assert nearest("train", []) == ""


def test_the_first_line_of_a_message() -> None:
    assert first_line(ValueError("\n no such file\nsecond line")) == "no such file"
    assert first_line(KeyError()) == "KeyError"


def test_control_characters_are_written_out() -> None:
    assert printable("\x1b]0;title\x07 name\n\tnext") == "\\x1b]0;title\\x07 name\n\tnext"
    assert printable("\x9b31m\x7f\r") == "\\x9b31m\\x7f\\x0d"
    assert printable("caf\u00e9 \u732b") == "caf\u00e9 \u732b"
