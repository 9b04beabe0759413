"""Text files with one entry per line: encodings, line numbers, class lists."""

import os
from pathlib import Path

import pytest

from scob.data.readers.text_lists import class_list, read_lines, read_text, unknown_class
from scob.data.split import ReadOptions
from scob.errors import UserError


def test_a_byte_order_mark_is_dropped_and_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfcat\r\n")
    assert read_text(path) == "cat\n"
    path.write_bytes("cat".encode("utf-16"))
    with pytest.raises(UserError, match=r"is not UTF-8 text \(byte 0\); save it as UTF-8"):
        read_text(path)


def test_an_exact_text_keeps_line_endings_and_odd_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfcaf\xe9.jpg\r\n")
    assert read_text(path, exact=True) == os.fsdecode(b"caf\xe9.jpg") + "\r\n"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(UserError, match="cannot read"):
        read_text(tmp_path)


def test_blank_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cat\n\n  dog \n")
    assert list(read_lines(tmp_path / "a.txt")) == [(1, "cat"), (3, "dog")]


def test_classes_come_from_the_option_then_from_the_file(tmp_path: Path) -> None:
    assert class_list(tmp_path, ReadOptions()) is None
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    assert class_list(tmp_path, ReadOptions()) == ("dog", "cat")
    assert class_list(tmp_path, ReadOptions(classes=("bird",))) == ("bird",)


def test_an_empty_class_list_and_one_with_a_class_twice(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text("\n")
    with pytest.raises(UserError, match="is empty; list one class per line, or remove the file"):
        class_list(tmp_path, ReadOptions())
    path.write_text("dog\ncat\ndog\n")
    with pytest.raises(UserError, match=r"classes\.txt line 3: the class 'dog' is already on line 1"):
        class_list(tmp_path, ReadOptions())


def test_an_unknown_class_is_told_with_the_nearest_one() -> None:
    error = unknown_class("labels.csv row 3", "dgo", ("cat", "dog"))
    expected = "labels.csv row 3: the label 'dgo' is not in the list of 2 classes. Did you mean 'dog'?"
    assert str(error) == expected
