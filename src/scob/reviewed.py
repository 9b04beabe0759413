"""A person's decisions, back into the labels that the next training learns from."""

import csv
import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scob.config import nearest
from scob.errors import UserError
from scob.files import free_path, write_atomically
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.review.suggestions import SUGGESTIONS, Pair, read_queue
from scob.run import RunFolder

REVIEWED_LABELS = "labels-reviewed.safetensors"
REVIEWED_TABLE = "labels-reviewed.csv"


@dataclass(frozen=True)
class Imported:
    """A label file with a person's decisions in it; `run` is the run whose labels are in it, too."""

    path: Path
    run: Path | None
    confirmed: int
    rejected: int
    changed: int
    fingerprint: str


def import_reviewed(run: str | Path, reviewed: Path, out: Path | None = None) -> Imported:
    """`scob recover RUN --import reviewed.csv`: the run's labels with a person's +1 and -1 laid upon them.

    The file (RUN/labels-reviewed.safetensors) is what `labels.file=` of the next training takes. `run` may also be a
    folder of suggestions; if they are for images that were never trained on, see `import_for_new_images`.
    """
    folder = RunFolder(Path(run))
    if (folder.path / SUGGESTIONS).is_file() and not folder.labels_file.exists():
        above = folder.path.resolve()
        if above.name != "recovered" or not RunFolder(above.parent).labels_file.exists():
            return import_for_new_images(folder.path, reviewed, out)
        folder = RunFolder(folder.path.parent if folder.path.name == "recovered" else above.parent)
    labels = folder.labels()
    decided = decisions(reviewed, labels, f"in the run {folder.path}")
    values, changed = labels.values.copy(), 0
    rows = {name: row for row, name in enumerate(labels.images)}
    for (image, label), state in decided.items():
        place = rows[image], labels.classes.index(label)
        changed += bool(values[place] not in (UNKNOWN, state))
        values[place] = state
    path = out or folder.path / REVIEWED_LABELS
    made = Labels(labels.classes, labels.images, values, f"{labels.origin}, {len(decided)} reviewed")
    return _imported(path, folder.path, decided, changed, made.save(path))


def import_for_new_images(folder: Path, reviewed: Path, out: Path | None = None) -> Imported:
    """Decisions about images that a run had not seen, as a table that `scob train --images` takes.

    The table (labels-reviewed.csv) lists the run's own images and labels as well, if `folder` lies in the run and its
    images are files. It stands in the folder that holds them all, because a table names images below itself.
    """
    from scob.suggestion_files import image_paths
    from scob.thresholds import open_run

    queue = read_queue(folder)
    run = folder.resolve().parent if RunFolder(folder.resolve().parent).labels_file.exists() else None
    own = open_run(run)[1] if run is not None else None
    own_files = (image_paths(own.split) if own is not None else None) or {}
    suggested = tuple(dict.fromkeys(s.image for s in queue.suggestions))
    classes = own.observed.classes if own is not None else tuple(sorted({s.label for s in queue.suggestions}))
    blank = np.zeros((len(suggested), len(classes)), np.int8)
    decided = decisions(reviewed, Labels(classes, suggested, blank), f"among the suggestions of {folder}")
    states: dict[str, dict[str, int]] = {}
    if own is not None:
        for image, line in zip(own.observed.images, own.observed.values, strict=True):
            if image in own_files:
                states[own_files[image]] = {classes[c]: int(line[c]) for c in np.flatnonzero(line)}
    for (image, label), state in decided.items():
        if image not in queue.files:
            raise UserError(f"{folder} does not say where the image {image!r} is; run scob recover again")
        states.setdefault(os.path.abspath(queue.files[image]), {})[label] = state  # noqa: PTH100 (links stay)
    home = Path(os.path.commonpath([os.path.dirname(path) for path in states]))  # noqa: PTH120
    if out is None and home == Path(home.anchor):
        raise UserError("the images have no folder in common to put a table in: bring them below one folder")
    if out is not None and not home.is_relative_to(out.absolute().parent):
        raise UserError(f"a table names images below itself: {out} must stand in {home} or above it")
    path = out or free_path(Path(os.path.relpath(home)) / REVIEWED_TABLE)
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    lines.writerow(("image", "label", "state"))
    for file, said in states.items():
        name = os.path.relpath(file, path.absolute().parent)
        lines.writerows((name, label, f"{state:+d}") for label, state in said.items())
    content = table.getvalue().encode("utf-8", "surrogateescape")
    write_atomically(path, content)
    below = folder.parent if run is not None and folder.parent.resolve() == run else run
    return _imported(path, below, decided, 0, hashlib.sha256(content).hexdigest())


def _imported(path: Path, run: Path | None, decided: dict[Pair, int], changed: int, fingerprint: str) -> Imported:
    said = list(decided.values())
    return Imported(path, run, said.count(PRESENT), said.count(ABSENT), changed, fingerprint)


def decisions(reviewed: Path, labels: Labels, where_else: str) -> dict[Pair, int]:
    """What a reviewed.csv says of (image, class), checked against the images and classes there are."""
    images, classes = set(labels.images), set(labels.classes)
    found: dict[Pair, int] = {}
    for number, image, label, state in read_reviewed(reviewed):
        where = f"{reviewed} row {number}"
        if image not in images:
            raise UserError(f"{where}: the image {image!r} is not {where_else}.{nearest(image, images)}")
        if label not in classes:
            raise UserError(f"{where}: there is no class {label!r}.{nearest(label, classes)}")
        if found.setdefault((image, label), state) != state:
            raise UserError(f"{where}: {image!r} has {label!r} both confirmed and rejected; remove one of the two")
    if not found:
        raise UserError(f"{reviewed} holds no decision: review some suggestions first, with scob review")
    return found


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
