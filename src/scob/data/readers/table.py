"""The user's own images: a CSV or JSON-lines table of what each image shows.

Long:   `image,label[,state][,split]`, one or more rows per image; a row without a label still adds the image.
Wide:   `image[,split],CLASS,CLASS,...`, each cell 1 (present), -1 (absent), 0 or blank (unknown).
JSON:   one line `{"image": ..., "labels": [...] or {name: state}, "absent": [...], "split": ...}` per image.

Image names are relative to the table's folder. A `classes.txt` beside it fixes the classes and their order.
In a folder of several tables, each table is a split, named like its file; a single table without a `split` column
is one split, 'train'.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from scob.data.images import ImageFiles, Root, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.table_rows import SUFFIXES, WORDS, Row, read_rows
from scob.data.readers.text_lists import class_list, unknown_class
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import Labels

UNSPLIT = "train"
EMPTY_SPLITS = ("train", "val", "test")  # an empty file of such a name is a mistake, not a file of another kind


@dataclass
class Entry:
    """What all rows together give for one image."""

    path: str
    where: str
    split: str
    alone: bool
    states: dict[str, tuple[int, str]] = field(default_factory=dict)


def recognises(source: Path) -> bool:
    """Whether this is a file with a table's suffix, or a folder of tables with an image column."""
    if source.is_file():
        return source.suffix.lower() in SUFFIXES
    return source.is_dir() and bool(_tables(source))


def splits(source: Path) -> tuple[str, ...]:
    """The splits that the tables name."""
    tables = _required_tables(source)
    if len(tables) > 1:
        names = [path.stem for path in tables]
    else:
        names = list(dict.fromkeys(row.split or UNSPLIT for row in read_rows(tables[0], tables[0].name, [], True)))
        if not names:  # every row was skipped: read them again, to say why
            list(read_rows(tables[0], tables[0].name, [], False))
    return tuple(sorted(names, key=lambda name: (name != "train", name)))


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None. The classes are those of all splits together."""
    tables = _required_tables(source)
    folder = source if source.is_dir() else source.parent
    fixed = class_list(folder, options)
    skipped: list[str] = []
    entries: dict[str, Entry] = {}
    classes: dict[str, None] = dict.fromkeys(fixed or ())
    wide: dict[str, None] = {}
    root = Root(folder)
    for path in tables:
        for row in read_rows(path, path.name, skipped, options.skip_bad, fixed):
            try:
                if len(tables) > 1 and row.split is not None:
                    raise UserError(f"{row.where}: with several tables, each one is a split; remove the split column")
                _add(row, path.stem if len(tables) > 1 else UNSPLIT, fixed, root, entries)
            except UserError as error:
                skip_or_raise(error, options.skip_bad, skipped)
            else:
                (wide if row.alone else classes).update(dict.fromkeys(row.states))
    names = fixed or (*wide, *sorted(set(classes) - set(wide)))
    if not names:
        raise UserError(f"{source} names no class: every label is blank; fill in some labels")
    stems = [path.stem for path in tables] if len(tables) > 1 else []  # a table without rows is an empty split
    known = tuple(dict.fromkeys([*stems, *(entry.split for entry in entries.values())]))
    split = None if split is None else find_split(source, split, known)
    selected = {name: entry for name, entry in entries.items() if split is None or entry.split == split}
    column = {name: i for i, name in enumerate(names)}
    values = np.zeros((len(selected), len(names)), np.int8)
    for i, entry in enumerate(selected.values()):
        for label, (state, _) in entry.states.items():
            values[i, column[label]] = state
    return Split(
        name=split or "all",
        labels=Labels(names, tuple(selected), values, source.name),
        images=ImageFiles(tuple(e.path for e in selected.values()), tuple(e.where for e in selected.values())),
        skipped=tuple(skipped),
    )


def _add(row: Row, default: str, fixed: tuple[str, ...] | None, root: Root, entries: dict[str, Entry]) -> None:
    """Add a row to what is known about its image; nothing changes if the row is refused."""
    split = row.split or default
    name = os.path.normpath(row.image).replace(os.sep, "/")
    if Path(name).is_absolute():
        name = os.path.relpath(name, os.path.abspath(root.folder)).replace(os.sep, "/")  # noqa: PTH100
    entry = entries.get(name)
    if entry is None:
        entry = Entry(root.inside(row.image, row.where), row.where, split, row.alone)
    elif entry.split != split:
        raise UserError(
            f"{row.where}: {row.image!r} is in the split {split!r} here, but {entry.split!r} in {entry.where}"
        )
    elif row.alone or entry.alone or (not row.states and not entry.states):
        raise UserError(f"{row.where}: {row.image!r} is already in {entry.where}; remove one of the two")
    for label, state in row.states.items():
        if fixed is not None and label not in fixed:
            raise unknown_class(row.where, label, fixed)
        if label in entry.states:
            before, where = entry.states[label]
            if before == state:
                raise UserError(f"{row.where}: {row.image!r}, {label!r} repeats {where}; remove one of the two")
            raise UserError(
                f"{row.where}: {row.image!r} has {label!r} {WORDS[state]} here and {WORDS[before]} in {where}"
            )
    entry.states.update({label: (state, row.where) for label, state in row.states.items()})
    entries[name] = entry


def _required_tables(source: Path) -> list[Path]:
    """The tables of a source; a UserError if there are none."""
    tables = _tables(source)
    if not tables:
        raise UserError(f"there is no table in {source}: no CSV, TSV or JSON-lines file with an 'image' column")
    return tables


def _tables(source: Path) -> list[Path]:
    """The tables of a source."""
    if source.is_file():
        return [source]
    files = sorted(path for path in source.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    tables = [path for path in files if _names_images(path)]
    empty = [path for path in files if path.stem in EMPTY_SPLITS and not path.stat().st_size]  # `read` refuses these
    return sorted([*tables, *empty]) if tables else []


def _names_images(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.readline(65536).decode("utf-8-sig", errors="replace")
    if not SUFFIXES[path.suffix.lower()]:
        return '"image"' in head
    return any("image" in (cell.strip().strip('"').lower() for cell in head.split(d)) for d in ",;\t")
