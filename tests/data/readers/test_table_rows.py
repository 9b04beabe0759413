"""The rows of a table: columns, states and row numbers, and what is refused."""

from pathlib import Path

import pytest

from scob.data.readers.table_rows import Row, csv_rows, read_rows, state_of
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN


def table(folder: Path, text: str, name: str = "labels.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def rows(path: Path, skipped: list[str] | None = None) -> list[Row]:
    return list(read_rows(path, path.name, [] if skipped is None else skipped, skipped is not None))


def refused(path: Path, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        rows(path)
    assert "\n" not in str(caught.value)


def test_rows_are_numbered_by_the_line_they_begin_on() -> None:
    text = 'image,label\n\n"a.png","two\nlines"\r\nb.png, x \n'
    assert list(csv_rows(text, "t.csv")) == [
        (1, ["image", "label"]),
        (2, []),
        (3, ["a.png", "two\nlines"]),
        (5, ["b.png", " x "]),
    ]


def test_an_open_quote_is_reported_with_its_row() -> None:
    with pytest.raises(UserError, match=r"t\.csv row 2: this is not CSV .*are its quotes closed"):
        list(csv_rows('image,label\n"a.png,x\n', "t.csv"))


def test_states_may_be_numbers_or_words() -> None:
    assert state_of("+1") == state_of(" Present ") == state_of("1.0") == PRESENT
    assert state_of("-1") == state_of("ABSENT") == ABSENT
    assert state_of("0") == state_of("unknown") == UNKNOWN
    assert state_of("") is None and state_of("maybe") is None


def test_long_wide_and_json_rows(tmp_path: Path) -> None:
    long = rows(table(tmp_path, "image,label,state,split\na.png,x,-1,val\n"))
    assert long == [Row("labels.csv row 2", "a.png", {"x": ABSENT}, "val", False)]
    wide = rows(table(tmp_path, "image,x,y\na.png,1,\n"))
    assert wide == [Row("labels.csv row 2", "a.png", {"x": PRESENT, "y": UNKNOWN}, None, True)]
    lines = rows(table(tmp_path, '\n{"image": "a.png", "labels": ["x"], "absent": ["y"]}\n', "l.jsonl"))
    assert lines == [Row("l.jsonl row 2", "a.png", {"x": PRESENT, "y": ABSENT}, None, False)]


def test_bad_rows_are_skipped_and_listed_but_a_bad_header_is_not(tmp_path: Path) -> None:
    skipped: list[str] = []
    read = rows(table(tmp_path, "image,label\n,x\na.png,x\n"), skipped)
    assert [row.image for row in read] == ["a.png"]
    assert skipped == ["labels.csv row 2: the image is blank"]
    with pytest.raises(UserError, match="no column is called 'image'"):
        rows(table(tmp_path, "picture,label\na.png,x\n"), [])


def test_a_file_that_is_not_a_table(tmp_path: Path) -> None:
    refused(table(tmp_path, "image,label\na.png,x\n", "labels.txt"), r"is not a table; its name must end in \.csv")


def test_a_table_of_blank_cells(tmp_path: Path) -> None:
    for text in (",", '""', ";\n;\n", '"\n"'):
        refused(table(tmp_path, text), r"labels\.csv has only blank cells; its first line must name the columns")


def test_unknown_column(tmp_path: Path) -> None:
    refused(table(tmp_path, "image,label,stat\na.png,x,1\n"), r"labels\.csv: unknown column 'stat'.*mean 'state'")
    refused(table(tmp_path, "image,x,notes\na.png,1,nice\n"), r"row 2, 'notes': 'nice' is not a state")
    refused(table(tmp_path, "picture,label\na.png,x\n"), r"labels\.csv: no column is called 'image'")
    refused(table(tmp_path, "image,label,label\na.png,x,y\n"), "two columns are called 'label'")


def test_rows_of_the_wrong_length_and_blank_cells(tmp_path: Path) -> None:
    refused(table(tmp_path, "image,label\na.png\n"), "row 2: it has 1 cells, but the header names 2")
    refused(table(tmp_path, "image,label\n,x\n"), "row 2: the image is blank")
    refused(table(tmp_path, "image,label,state\na.png,,1\n"), "row 2: there is a state, '1', but no label")


def test_bad_json_lines(tmp_path: Path) -> None:
    for line, message in (
        ("{", "row 1: this is not JSON"),
        ("[1]", "row 1: this is not an object"),
        ('{"image": 3}', "'image' must be the name"),
        ('{"image": "a.png", "lables": []}', "unknown key 'lables'"),
        ('{"image": "a.png", "labels": "cat"}', "must be lists"),
        ('{"image": "a.png", "labels": ["x"], "absent": ["x"]}', "the label 'x' is given twice"),
        ('{"image": "a.png", "labels": {"x": true}}', "True is not a state"),
    ):
        refused(table(tmp_path, line, "labels.jsonl"), message)


def test_semicolons_and_tabs(tmp_path: Path) -> None:
    for name, mark in (("a.csv", ";"), ("b.csv", "\t"), ("c.tsv", "\t")):
        assert [row.states for row in rows(table(tmp_path, f"image{mark}label\na.png{mark}x\n", name))] == [{"x": 1}]
