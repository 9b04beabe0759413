"""The words that errors are made of."""

from scob.errors import first_line, nearest


def test_the_nearest_name_is_suggested_or_none() -> None:
    assert nearest("trian", ["train", "data"]) == " Did you mean 'train'?"
    assert nearest("epoch", ["train.epochs", "data.size"]) == " Did you mean 'train.epochs'?"  # without its section
    assert nearest("qqqq", ["train", "data"]) == ""
    assert nearest("train", []) == ""


def test_the_first_line_of_a_message() -> None:
    assert first_line(ValueError("\n no such file\nsecond line")) == "no such file"
    assert first_line(KeyError()) == "KeyError"
