"""The rows of a CSV, TSV or JSON-lines table, in any of the forms that `scob.data.readers.table` describes."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob.data.images import skip_or_raise
from scob.data.readers.text_lists import read_text, unknown_class
from scob.errors import UserError, nearest
from scob.files import unguarded
from scob.labels import ABSENT, PRESENT, UNKNOWN

SUFFIXES = {".csv": ",", ".tsv": "\t", ".jsonl": "", ".ndjson": ""}
STATES = {"1": PRESENT, "+1": PRESENT, "1.0": PRESENT, "present": PRESENT}
STATES |= {"-1": ABSENT, "-1.0": ABSENT, "absent": ABSENT}
STATES |= {"0": UNKNOWN, "0.0": UNKNOWN, "unknown": UNKNOWN}
WORDS = {PRESENT: "present", ABSENT: "absent", UNKNOWN: "unknown"}
LONG = ("image", "label", "state", "split")
JSON_KEYS = ("image", "label", "state", "labels", "absent", "split")


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    where: str
    image: str
    states: dict[str, int]
    split: str | None
    alone: bool  # a wide row has every label of its image, so a second row for that image is an error


def state_of(cell: str) -> int | None:
    """The state that a cell names, in any case; None if it names none."""
    return STATES.get(cell.strip().lower())


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
    path: Path, shown: str, skipped: list[str], skip_bad: bool, fixed: tuple[str, ...] | None = None
) -> Iterator[Row]:
    """The rows of one table. A bad header always raises; a bad row raises or, with `skip_bad`, is skipped."""
    text = read_text(path)
    if not text.strip():
        raise UserError(f"{path} is empty; its first line must name the columns, as in image,label")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path} is not a table; its name must end in {', '.join(SUFFIXES)}")
    parsed = _csv(text, shown, SUFFIXES[suffix], fixed) if SUFFIXES[suffix] else _json_lines(text, shown)
    any_row = False
    for row in parsed:
        any_row = True
        if isinstance(row, UserError):
            skip_or_raise(row, skip_bad, skipped)
        else:
            yield row
    if not any_row:
        raise UserError(f"{path} has no rows below its header")


def _csv(text: str, shown: str, delimiter: str, fixed: tuple[str, ...] | None) -> Iterator[Row | UserError]:
    head = text.lstrip("\r\n").splitlines()[0]
    if delimiter == "," and "," not in head:  # spreadsheets write this where the comma is the decimal sign
        delimiter = next((d for d in ";\t" if d in head), ",")
    header: list[str] = []
    for number, raw in csv_rows(text, shown, delimiter):
        cells = [cell.strip() for cell in raw]
        where = f"{shown} row {number}"
        if not any(cells):
            continue
        if any("\0" in cell for cell in cells):
            yield UserError(f"{where}: it contains a NUL character, which no name can contain")
            continue
        if not header:
            header = _header(cells, shown, fixed)
            continue
        if len(cells) != len(header):
            yield UserError(f"{where}: it has {len(cells)} cells, but the header names {len(header)} columns")
            continue
        yield _csv_row(dict(zip(header, cells, strict=True)), where)


def _header(cells: list[str], shown: str, fixed: tuple[str, ...] | None) -> list[str]:
    """The column names, checked; those of the long form may be written in any case."""
    folded = [cell.lower() if cell.lower() in LONG else cell for cell in cells]
    if "image" not in folded:
        raise UserError(f"{shown}: no column is called 'image'; the columns are {', '.join(map(repr, cells))}")
    if "" in folded:
        raise UserError(f"{shown}: column {folded.index('') + 1} has no name")
    for column in folded:
        if folded.count(column) > 1:
            raise UserError(f"{shown}: two columns are called {column!r}")
    for column in folded:
        if "label" in folded and column not in LONG:
            hint = nearest(column, LONG)
            raise UserError(f"{shown}: unknown column {column!r}; the columns may be {', '.join(LONG)}.{hint}")
        if "label" not in folded and fixed is not None and column not in (*fixed, "image", "split"):
            raise unknown_class(f"{shown}, in its header", column, fixed)
    if set(folded) <= {"image", "split", "state"}:
        raise UserError(f"{shown}: there is neither a 'label' column nor one column per class")
    return folded


def _csv_row(cells: dict[str, str], where: str) -> Row | UserError:
    image, split = cells.pop("image"), cells.pop("split", None)
    if not image:
        return UserError(f"{where}: the image is blank")
    if split == "":
        return UserError(f"{where}: the split is blank")
    if "label" in cells:
        label, state = cells["label"], cells.get("state", "")
        if not label:
            if state:
                return UserError(f"{where}: there is a state, {state!r}, but no label")
            return Row(where, image, {}, split, False)
        cells = {label: state or "present"}
        alone = False
    else:
        alone = True
    states: dict[str, int] = {}
    for label, cell in cells.items():
        known = state_of(cell) if cell else UNKNOWN
        if known is None:
            return _no_state(where, label, cell)
        states[label] = known
    return Row(where, image, states, split, alone)


def _json_lines(text: str, shown: str) -> Iterator[Row | UserError]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _json_row(line, f"{shown} row {number}")


def _json_row(line: str, where: str) -> Row | UserError:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        return UserError(f"{where}: this is not JSON ({error})")
    if not isinstance(entry, dict):
        return UserError(f"{where}: this is not an object with an 'image'")
    for key in entry:
        if key not in JSON_KEYS:
            return UserError(f"{where}: unknown key {key!r}; the keys may be {', '.join(JSON_KEYS)}")
    image, split = entry.get("image"), entry.get("split")
    if not isinstance(image, str) or not image.strip():
        return UserError(f"{where}: 'image' must be the name of a file")
    if split is not None and (not isinstance(split, str) or not split):
        return UserError(f"{where}: 'split' must be a name")
    labels, absent = entry.get("labels", []), entry.get("absent", [])
    if not isinstance(labels, (list, dict)) or not isinstance(absent, list):
        return UserError(f"{where}: 'labels' and 'absent' must be lists of names (or labels: {{name: state}})")
    pairs: list[tuple[Any, Any]] = []
    pairs += labels.items() if isinstance(labels, dict) else [(label, 1) for label in labels]
    pairs += [(label, -1) for label in absent]
    if entry.get("label") is not None:
        pairs.append((entry["label"], entry.get("state", 1)))
    states: dict[str, int] = {}
    for label, raw in pairs:
        if not isinstance(label, str) or not label.strip() or "\0" in label:
            return UserError(f"{where}: {label!r} is not a label")
        state = state_of(str(raw))
        if state is None or isinstance(raw, bool):
            return _no_state(where, label, raw)
        if label.strip() in states:
            return UserError(f"{where}: the label {label!r} is given twice")
        states[label.strip()] = state
    return Row(where, image, states, split, False)


def _no_state(where: str, label: str, raw: object) -> UserError:
    return UserError(f"{where}, {label!r}: {raw!r} is not a state; write 1 (present), -1 (absent) or 0 (unknown)")
