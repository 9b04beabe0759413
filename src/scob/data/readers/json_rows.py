"""Rows that are JSON objects, one per image: of a JSON-lines file, a JSON list, or our own predictions."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from scob.data.readers.row_splits import Row
from scob.data.readers.table_columns import (
    IMAGE_NAMES,
    LABEL_NAMES,
    LONG,
    OURS,
    Separator,
    find_separator,
    state_of,
)
from scob.errors import UserError, nearest

KEYS = ("image", "label", "state", "labels", "absent", "split")
EVIDENCE = ("mask", "box", "boxes", "observed")  # of our own suggestions


def json_lines(text: str) -> list[tuple[int, Any]]:
    """(number, object) of every line that is not blank; a `ValueError` or `RecursionError` for one that is not JSON."""
    entries: list[tuple[int, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                entries.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                entries.append((number, error))
    return entries


def rows_of_entries(
    entries: Sequence[tuple[int, Any]], shown: str, asked: Separator | None
) -> tuple[Iterator[Row | UserError], str]:
    """The rows of JSON objects, and their form in words."""
    objects = [entry for _, entry in entries if isinstance(entry, dict)]
    label_key = next((key for key in LABEL_NAMES if any(isinstance(entry.get(key), str) for entry in objects)), "")
    texts = [entry[label_key].strip() for entry in objects if isinstance(entry.get(label_key), str)]
    images = [str(entry[key]) for entry in objects for key in [image_key(entry)] if key]
    separator = asked or find_separator(texts, label_key, len(set(images)) < len(images))
    form = "one JSON object per image" + (f", {separator.remark}" if separator.remark else "")
    return _rows(entries, shown, separator), form


def image_key(entry: dict[str, Any]) -> str:
    """The key that names the image; '' if none does."""
    return next((key for key in IMAGE_NAMES if key in entry), "")


def _rows(entries: Sequence[tuple[int, Any]], shown: str, separator: Separator) -> Iterator[Row | UserError]:
    described: set[str] = set()
    for number, entry in entries:
        where = f"{shown} row {number}"
        if isinstance(entry, Exception):
            yield UserError(f"{where}: this is not JSON ({entry})")
        elif not isinstance(entry, dict):
            yield UserError(f"{where}: this is not an object with an 'image'")
        else:
            row = _row(entry, where, separator)
            if isinstance(row, Row) and row.image not in described and isinstance(entry.get("observed"), list):
                known = {name: 1 for name in entry["observed"] if isinstance(name, str)}
                row = Row(where, row.image, {**known, **row.states}, row.split, False)
            described |= {row.image} if isinstance(row, Row) else set()
            yield row


def _row(entry: dict[str, Any], where: str, separator: Separator) -> Row | UserError:
    for key in entry:
        known = key in (*KEYS, *IMAGE_NAMES, *LABEL_NAMES, *OURS, *EVIDENCE)
        if not known and not key.startswith("score:") and nearest(key, (*KEYS, *LONG)):
            return UserError(f"{where}: unknown key {key!r}; the keys may be {', '.join(KEYS)}")
    image, split = entry.get(image_key(entry)), entry.get("split")
    if not isinstance(image, str) or not image.strip():
        return UserError(f"{where}: 'image' must be the name of a file")
    if split is not None and (not isinstance(split, str) or not split):
        return UserError(f"{where}: 'split' must be a name")
    if entry.get("error"):
        return UserError(f"{where}: the prediction failed ({entry['error']})")
    pairs = _pairs(entry, separator)
    if pairs is None:
        return UserError(f"{where}: 'labels' and 'absent' must be lists of names (or labels: {{name: state}})")
    states: dict[str, int] = {}
    for label, raw in pairs:
        if not isinstance(label, str) or not label.strip() or "\0" in label:
            return UserError(f"{where}: {label!r} is not a label")
        state = state_of(str(raw))
        if state is None or isinstance(raw, bool):
            return UserError(
                f"{where}, {label!r}: {raw!r} is not a state; write 1 (present), -1 (absent) or 0 (unknown)"
            )
        if label.strip() in states:
            return UserError(f"{where}: the label {label!r} is given twice")
        states[label.strip()] = state
    return Row(where, image, states, split, False)


def _pairs(entry: dict[str, Any], separator: Separator) -> list[tuple[Any, Any]] | None:
    """(label, state) of everything that an object says, unchecked; None if 'labels' or 'absent' is no list."""
    labels, absent = entry.get("labels"), entry.get("absent")
    labels, absent = [] if labels is None else labels, [] if absent is None else absent
    if not isinstance(labels, (list, dict)) or not isinstance(absent, list):
        return None
    pairs: list[tuple[Any, Any]] = []
    if isinstance(labels, dict):
        pairs += labels.items()
    else:  # earlier predictions are {"label": ..., "score": ...}
        pairs += [(each.get("label") if isinstance(each, dict) else each, 1) for each in labels]
    pairs += [(label, -1) for label in absent]
    for key in LABEL_NAMES:
        value = entry.get(key)
        if key == "labels" or value is None:
            continue
        if isinstance(value, str):
            names: list[Any] = separator.split(value.strip())
        elif isinstance(value, list):
            names = value
        else:
            names = [str(value) if isinstance(value, int) and not isinstance(value, bool) else value]
        pairs += [(name, entry.get("state", 1)) for name in names]
    return pairs
