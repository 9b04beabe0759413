"""A person's decisions, back into the labels that the next training learns from."""

import csv
from dataclasses import dataclass
from pathlib import Path

from scob.config import nearest
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.run import RunFolder

REVIEWED_LABELS = "labels-reviewed.safetensors"


@dataclass(frozen=True)
class Imported:
    """A label file with a person's decisions in it."""

    path: Path
    confirmed: int
    rejected: int
    changed: int
    fingerprint: str


def import_reviewed(run: str | Path, reviewed: Path, out: Path | None = None) -> Imported:
    """`scob recover RUN --import reviewed.csv`: the run's labels with a person's +1 and -1 laid upon them.

    The file (RUN/labels-reviewed.safetensors) is what `labels.file=` of the next training takes.
    """
    folder = RunFolder(Path(run))
    labels = folder.labels()
    rows = {name: row for row, name in enumerate(labels.images)}
    columns = {name: c for c, name in enumerate(labels.classes)}
    values = labels.values.copy()
    seen: dict[tuple[int, int], int] = {}
    changed = 0
    for number, image, label, state in read_reviewed(reviewed):
        where = f"{reviewed} row {number}"
        if image not in rows:
            raise UserError(f"{where}: the image {image!r} is not in the run {run}.{nearest(image, rows)}")
        if label not in columns:
            raise UserError(f"{where}: the run has no class {label!r}.{nearest(label, columns)}")
        pair = rows[image], columns[label]
        if seen.setdefault(pair, state) != state:
            raise UserError(f"{where}: {image!r} has {label!r} both confirmed and rejected; remove one of the two")
        changed += bool(labels.values[pair] not in (UNKNOWN, state))
        values[pair] = state
    if not seen:
        raise UserError(f"{reviewed} holds no decision: review some suggestions first, with scob review {run}")
    path = out or folder.path / REVIEWED_LABELS
    made = Labels(labels.classes, labels.images, values, f"{labels.origin}, {len(seen)} reviewed")
    fingerprint = made.save(path)
    states = list(seen.values())
    return Imported(path, states.count(PRESENT), states.count(ABSENT), changed, fingerprint)


def read_reviewed(path: Path) -> list[tuple[int, str, str, int]]:
    """(row number, image, label, state) of a reviewed.csv."""
    states = {"+1": PRESENT, "1": PRESENT, "present": PRESENT, "-1": ABSENT, "absent": ABSENT}
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            lines = list(csv.reader(file, strict=True))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (OSError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as CSV: {error}") from error
    head = [cell.strip().lower() for cell in lines[0]] if lines else []
    if head[:3] != ["image", "label", "state"]:
        raise UserError(f"{path}: its first line must be image,label,state, as scob review writes it")
    found: list[tuple[int, str, str, int]] = []
    for number, cells in enumerate(lines[1:], 2):
        if not any(cells):
            continue
        if len(cells) < 3:
            raise UserError(f"{path} row {number}: it has {len(cells)} cells, not image,label,state")
        state = cells[2].strip().lower()
        if state not in states:
            raise UserError(f"{path} row {number}: {cells[2]!r} is no state; write +1 (confirmed) or -1 (rejected)")
        found.append((number, cells[0], cells[1], states[state]))
    return found
