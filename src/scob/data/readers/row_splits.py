"""From rows, of whatever kind of file, to a split: what all rows together say about each image."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from scob.data.images import ImageFiles, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.named_images import NamedImages
from scob.data.readers.text_lists import unknown_class
from scob.data.split import Boxes, Split
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels

UNSPLIT = "train"
BoxesOf = Callable[[tuple[str, ...], tuple[str, ...]], Boxes]  # of the images and classes of a split, by their names
WORDS = {PRESENT: "present", ABSENT: "absent", UNKNOWN: "unknown"}


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    where: str
    image: str
    states: dict[str, int]
    split: str | None
    alone: bool  # a wide row has every label of its image, so a second row for that image is an error


@dataclass
class Entry:
    """What all rows together give for one image."""

    path: str
    where: str
    split: str
    alone: bool
    states: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass
class Gathered:
    """The images that rows name, what is known about each, and the rows that were skipped.

    `fixed` are the classes if they were given; otherwise they are those that the rows name.
    """

    source: Path
    images: NamedImages
    fixed: tuple[str, ...] | None
    skip_bad: bool
    skipped: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    wide: dict[str, None] = field(default_factory=dict)
    named: dict[str, None] = field(default_factory=dict)

    def add_all(self, rows: Iterable[Row]) -> None:
        """Add rows; a row that is refused raises or is skipped, and changes nothing."""
        for row in rows:
            try:
                self._add(row)
            except UserError as error:
                skip_or_raise(error, self.skip_bad, self.skipped)
            else:
                (self.wide if row.alone else self.named).update(dict.fromkeys(row.states))

    def _add(self, row: Row) -> None:
        split = row.split or UNSPLIT
        path, name = self.images.find(row.image, row.where)
        entry = self.entries.get(name)
        if entry is None:
            entry = Entry(path, row.where, split, row.alone)
        elif entry.split != split:
            raise UserError(
                f"{row.where}: {row.image!r} is in the split {split!r} here, but {entry.split!r} in {entry.where}"
            )
        elif row.alone or entry.alone or (not row.states and not entry.states):
            raise UserError(f"{row.where}: {row.image!r} is already in {entry.where}; remove one of the two")
        for label, state in row.states.items():
            if self.fixed is not None and label not in self.fixed:
                raise unknown_class(row.where, label, self.fixed)
            if label in entry.states:
                before, where = entry.states[label]
                if before == state:
                    raise UserError(f"{row.where}: {row.image!r}, {label!r} repeats {where}; remove one of the two")
                raise UserError(
                    f"{row.where}: {row.image!r} has {label!r} {WORDS[state]} here and {WORDS[before]} in {where}"
                )
        entry.states.update({label: (state, row.where) for label, state in row.states.items()})
        self.entries[name] = entry

    def classes(self) -> tuple[str, ...]:
        """Those that were given, or else those of the rows: columns first, then the other names, sorted."""
        names = self.fixed or (*self.wide, *sorted(set(self.named) - set(self.wide)))
        if not names and self.skipped and not self.entries:
            raise UserError(f"{self.source}: no row can be used; the first: {self.skipped[0]}")
        if not names:
            raise UserError(f"{self.source} names no class: every label is blank; fill in some labels")
        return names

    def split(self, name: str | None, known: Sequence[str] = (), boxes: BoxesOf | None = None) -> Split:
        """One split, or all images for None; `known` are splits that may have no images."""
        classes = self.classes()
        splits = tuple(dict.fromkeys([*known, *(entry.split for entry in self.entries.values())]))
        name = None if name is None else find_split(self.source, name, splits)
        selected = {image: entry for image, entry in self.entries.items() if name is None or entry.split == name}
        column = {label: i for i, label in enumerate(classes)}
        values = np.zeros((len(selected), len(classes)), np.int8)
        for i, entry in enumerate(selected.values()):
            for label, (state, _) in entry.states.items():
                values[i, column[label]] = state
        return Split(
            name=name or "all",
            labels=Labels(classes, tuple(selected), values, self.source.name),
            images=ImageFiles(tuple(e.path for e in selected.values()), tuple(e.where for e in selected.values())),
            skipped=tuple(self.skipped),
            boxes=None if boxes is None else boxes(tuple(selected), classes),
        )
