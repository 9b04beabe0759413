"""A person's decisions, back into the labels that the next training learns from."""

import csv
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scob.config import nearest
from scob.errors import UserError
from scob.files import free_path, write_atomically
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.review.store import HEADER, table_of
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
    table: bool  # for `scob train --images`; else for `labels.file=`


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
    images are files. It stands above all of them, because a table names images below itself, and never among the
    run's data, which it would change.
    """
    queue = read_queue(folder)
    run = folder.resolve().parent if RunFolder(folder.resolve().parent).labels_file.exists() else None
    classes, states, source = _own_labels(run) if run is not None else ((), {}, None)
    classes = classes or tuple(sorted({s.label for s in queue.suggestions}))
    files = {image: str(file) for image, file in queue.files.items()}
    # Earlier decisions may be about images that the present suggestions leave out; their names are paths.
    named = {image for _, image, _, _ in read_reviewed(reviewed)}
    files |= {image: image for image in sorted(named - set(files)) if Path(image).is_file()}
    blank = np.zeros((len(files), len(classes)), np.int8)
    decided = decisions(reviewed, Labels(classes, tuple(files), blank), f"among the suggestions of {folder}")
    changed = 0
    for (image, label), state in decided.items():
        said = states.setdefault(os.path.realpath(files[image]), {})
        changed += said.get(label, state) != state
        said[label] = state
    path = _table_above(states, source, out)
    rows: list[tuple[str, ...]] = []
    for file, said in states.items():
        name = os.path.relpath(file, os.path.realpath(path.parent))
        rows += [(name, label, f"{state:+d}") for label, state in said.items()] or [(name, "", "")]
    for cell in {cell for row in rows for cell in row}:
        if cell != cell.strip() or any(ord(sign) < 32 or "\ud800" <= sign <= "\udfff" for sign in cell):
            raise UserError(f"the name {cell!r} cannot stand in a table: rename it (UTF-8, no blank at either end)")
    content = table_of([HEADER, *rows])
    write_atomically(path, content)
    below = folder.parent if run is not None and folder.parent.resolve() == run else run
    return _imported(path, below, decided, changed, hashlib.sha256(content).hexdigest(), table=True)


def _own_labels(run: Path) -> tuple[tuple[str, ...], dict[str, dict[str, int]], Path | None]:
    """Classes of a run, what it knows by the file of each image (nothing, if they are not files), and its folder."""
    from scob.suggestion_files import image_paths
    from scob.thresholds import open_run
    from scob.training import known_methods

    known = open_run(run)[1]
    classes, files = known.observed.classes, image_paths(known.split)
    source = Path(RunFolder(run).read_config(known_methods()).data.source)
    if files is None:
        return classes, {}, None
    states = {
        os.path.realpath(files[image]): {classes[c]: int(line[c]) for c in np.flatnonzero(line)}
        for image, line in zip(known.observed.images, known.observed.values, strict=True)
    }
    return classes, states, source.resolve() if source.is_dir() else None


def _table_above(files: Iterable[str], source: Path | None, out: Path | None) -> Path:
    """Where a table of these files may stand: at `out`, else in the lowest folder that holds them all."""
    home = Path(os.path.commonpath([os.path.dirname(file) for file in files]))  # noqa: PTH120
    if source is not None and home.is_relative_to(source):
        home = source.parent
    if out is None and home == Path(home.anchor):
        raise UserError("the images have no folder in common that a table could stand in: bring them below one folder")
    if out is None:
        return free_path(Path(os.path.relpath(home)) / REVIEWED_TABLE)
    place = Path(os.path.realpath(out))
    if out.suffix.lower() != ".csv" or not home.is_relative_to(place.parent):
        raise UserError(f"{out} must end in .csv and stand in {home} or above it: a table names images below itself")
    return out


def _imported(
    path: Path, run: Path | None, decided: dict[Pair, int], changed: int, fingerprint: str, table: bool = False
) -> Imported:
    said = list(decided.values())
    return Imported(path, run, said.count(PRESENT), said.count(ABSENT), changed, fingerprint, table)


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
