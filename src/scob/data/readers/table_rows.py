"""The rows of a CSV, TSV, JSON or JSON-lines table, in any of the forms that `scob.data.readers.table` describes."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scob.data.images import skip_or_raise
from scob.data.readers.json_rows import json_lines, rows_of_entries
from scob.data.readers.row_splits import WORDS, Row
from scob.data.readers.table_columns import (
    Separator,
    asked_separator,
    described,
    find_columns,
    find_separator,
    state_of,
)
from scob.data.readers.text_lists import read_text
from scob.errors import UserError
from scob.files import unguarded
from scob.labels import UNKNOWN

SUFFIXES = {".csv": ",", ".tsv": "\t", ".jsonl": "", ".ndjson": "", ".json": "", ".parquet": ""}
__all__ = ["SUFFIXES", "WORDS", "Row", "Table", "csv_rows", "parse_table", "read_rows", "state_of", "usable_rows"]


@dataclass(frozen=True)
class Table:
    """A table as it is understood: its rows, or what is wrong with one, and its form in words."""

    rows: Iterable[Row | UserError]
    form: str


def csv_rows(text: str, shown: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """(number, cells) of every row of a CSV text, blank rows included; the number is that of the row's first line."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines_before = 0
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{shown} row {lines_before + 1}: this is not CSV ({error}); are its quotes closed?"
            ) from None
        yield lines_before + 1, [unguarded(cell) for cell in cells]
        lines_before = rows.line_num


def read_rows(
    path: Path,
    shown: str,
    skipped: list[str],
    skip_bad: bool,
    fixed: tuple[str, ...] | None = None,
    separator: str = "auto",
) -> Iterator[Row]:
    """The rows of one table. A bad header always raises; a bad row raises or, with `skip_bad`, is skipped."""
    yield from usable_rows(parse_table(path, shown, fixed, separator), path, skipped, skip_bad)


def usable_rows(table: "Table", path: Path, skipped: list[str], skip_bad: bool) -> Iterator[Row]:
    """The rows of a table that was parsed; a bad row raises or, with `skip_bad`, is skipped."""
    any_row = False
    for row in table.rows:
        any_row = True
        if isinstance(row, UserError):
            skip_or_raise(row, skip_bad, skipped)
        else:
            yield row
    if not any_row:
        raise UserError(f"{path} has no rows below its header")


def parse_table(path: Path, shown: str, fixed: tuple[str, ...] | None = None, separator: str = "auto") -> Table:
    """A table's form, found from all its cells, and its rows; a bad header raises."""
    suffix = path.suffix.lower()
    asked = asked_separator(separator)
    if suffix == ".parquet":
        from scob.data.readers.parquet_rows import parquet_cells

        header, cells, entries = parquet_cells(path, shown)
        if entries is not None:
            return Table(*rows_of_entries(entries, shown, asked))
        return _cell_table(header, cells, shown, fixed, asked)
    text = read_text(path)
    if not text.strip():
        raise UserError(f"{path} is empty; its first line must name the columns, as in image,label")
    if suffix not in SUFFIXES:
        raise UserError(f"{path} is not a table; its name must end in {', '.join(SUFFIXES)}")
    if not SUFFIXES[suffix]:
        return Table(*rows_of_entries(_json_list(text, path) if suffix == ".json" else json_lines(text), shown, asked))
    delimiter = SUFFIXES[suffix]
    head = text.lstrip("\r\n").splitlines()[0]
    if delimiter == "," and "," not in head:  # spreadsheets write this where the comma is the decimal sign
        delimiter = next((d for d in ";\t" if d in head), ",")
    rows = [(number, [c.strip() for c in cells]) for number, cells in csv_rows(text, shown, delimiter)]
    filled = [(number, cells) for number, cells in rows if any(cells)]
    if not filled:
        raise UserError(f"{path} has only blank cells; its first line must name the columns, as in image,label")
    return _cell_table(filled[0][1], filled[1:], shown, fixed, asked)


def _json_list(text: str, path: Path) -> list[tuple[int, object]]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(entries, list):
        raise UserError(f"{path} is not a list of images: write one object per image, with its 'image' and 'labels'")
    return list(enumerate(entries, 1))


def _cell_table(
    header: Sequence[str],
    rows: Sequence[tuple[int, list[str]]],
    shown: str,
    fixed: tuple[str, ...] | None,
    asked: Separator | None,
) -> Table:
    """A table of cells: its columns and separator are found first, from all rows."""

    def only_states(column: int) -> bool:
        cells = [cells[column] for _, cells in rows if len(cells) == len(header)]
        return any(cells) and all(not cell or state_of(cell) is not None for cell in cells)

    columns = find_columns(header, shown, fixed, only_states)
    complete = [cells for _, cells in rows if len(cells) == len(header)]
    separator = Separator("")
    if "label" in columns.names:
        at, image = columns.names.index("label"), columns.names.index("image")
        images = [cells[image] for cells in complete]
        one_per_row = "state" in columns.names or len(set(images)) < len(images)
        separator = asked or find_separator([cells[at] for cells in complete], columns.label, one_per_row)
    return Table(_rows(rows, columns.names, shown, columns.label, separator), described(columns, separator))


def _rows(
    rows: Sequence[tuple[int, list[str]]], names: Sequence[str], shown: str, label: str, separator: Separator
) -> Iterator[Row | UserError]:
    for number, cells in rows:
        where = f"{shown} row {number}"
        if any("\0" in cell for cell in cells):
            yield UserError(f"{where}: it contains a NUL character, which no name can contain")
        elif len(cells) != len(names):
            yield UserError(f"{where}: it has {len(cells)} cells, but the header names {len(names)} columns")
        else:
            used = {name: cell for name, cell in zip(names, cells, strict=True) if name}
            yield _row(used, where, label, separator)


def _row(cells: dict[str, str], where: str, label: str, separator: Separator) -> Row | UserError:
    image, split = cells.pop("image"), cells.pop("split", None)
    if not image:
        return UserError(f"{where}: the image is blank")
    if split == "":
        return UserError(f"{where}: the split is blank")
    if not label:
        states: dict[str, int] = {}
        for name, cell in cells.items():
            known = state_of(cell) if cell else UNKNOWN
            if known is None:
                return _no_state(where, name, cell)
            states[name] = known
        return Row(where, image, states, split, True)
    if cells.get("error"):
        return UserError(f"{where}: the prediction failed ({cells['error']})")
    state, names = cells.get("state", ""), separator.split(cells["label"])
    if not names and state:
        return UserError(f"{where}: there is a state, {state!r}, but no label")
    known = state_of(state or "present")
    if known is None:
        return _no_state(where, cells["label"], state)
    return Row(where, image, dict.fromkeys(names, known), split, False)


def _no_state(where: str, label: str, raw: object) -> UserError:
    return UserError(f"{where}, {label!r}: {raw!r} is not a state; write 1 (present), -1 (absent) or 0 (unknown)")
