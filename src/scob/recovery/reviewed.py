"""A reviewer's decisions, merged into the labels for the next training."""

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scob.errors import UserError, nearest
from scob.files import csv_text, free_path, write_atomically
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.recovery.answers import read_given
from scob.recovery.decisions import HEADER, REVIEWED
from scob.recovery.suggestion import DOUBTFUL, RECOVERED, SUGGESTIONS, Pair, read_queue
from scob.training.run_folder import RunFolder

REVIEWED_LABELS = "labels-reviewed.safetensors"
REVIEWED_TABLE = "labels-reviewed.csv"


@dataclass(frozen=True)
class Imported:
    """A label file with a reviewer's decisions; `run` is the run whose own labels are also in it.

    `earlier` names the other reviews of the run whose decisions are in it too, and counts these.
    """

    path: Path
    run: Path | None
    confirmed: int
    rejected: int
    changed: int
    fingerprint: str
    table: bool  # to be used with `scob train --images`; otherwise with `labels.file=`
    earlier: tuple[tuple[Path, int], ...] = ()


def import_reviewed(run: str | Path, reviewed: Path, out: Path | None = None) -> Imported:
    """`scob recover RUN --import reviewed.csv` (or an export of Label Studio): apply +1 and -1 to the run's labels.

    The next training takes the file (RUN/labels-reviewed.safetensors) with `labels.file=`. `run` may also be a folder
    of suggestions; if those are for images the run was not trained on, see `import_for_new_images`.
    """
    if not reviewed.is_file():
        raise UserError(f"there is no file {reviewed}: `scob review` writes reviewed.csv once you have answered")
    folder = RunFolder(Path(run))
    if (folder.path / SUGGESTIONS).is_file() and not folder.labels_file.exists():
        above = run_above(folder.path)
        if above is None or folder.path.resolve().name not in (RECOVERED, DOUBTFUL):
            return import_for_new_images(folder.path, reviewed, out)
        folder = RunFolder(above)
    labels = folder.labels()
    rows = {name: row for row, name in enumerate(labels.images)}
    columns = {name: c for c, name in enumerate(labels.classes)}
    asked = asked_about(folder.path / RECOVERED)
    decided = checked_decisions(reviewed, rows, columns, f"in the run {folder.path}", asked=asked)
    earlier = {
        path: checked_decisions(path, rows, columns, f"in the run {folder.path}", asked=asked)
        for path in other_reviews(folder.path, reviewed)
    }
    values, changed = labels.values.copy(), 0
    for (image, label), state in {pair: s for each in (*earlier.values(), decided) for pair, s in each.items()}.items():
        entry = rows[image], columns[label]
        changed += bool(values[entry] not in (UNKNOWN, state))
        values[entry] = state
    path = out or folder.path / REVIEWED_LABELS
    updated = Labels(labels.classes, labels.images, values, f"{labels.origin}, {len(decided)} reviewed")
    imported = _imported(path, folder.path, decided, changed, updated.save(path))
    return replace(imported, earlier=tuple((path, len(each)) for path, each in earlier.items()))


def other_reviews(run: Path, reviewed: Path) -> list[Path]:
    """The answers about a run's suggestions and doubtful labels, other than `reviewed`: one must not undo the other."""
    paths = [run / name / REVIEWED for name in (RECOVERED, DOUBTFUL) if (run / name / REVIEWED).is_file()]
    return [path for path in paths if not path.samefile(reviewed) and path.read_bytes().count(b"\n") > 1]


def import_for_new_images(folder: Path, reviewed: Path, out: Path | None = None) -> Imported:
    """Write decisions about images that the run did not have as a table for `scob train --images`.

    If `folder` is in the run and the run's images are files, the table (labels-reviewed.csv) lists those and their
    labels as well. It is in a folder above all images, because image paths in a table are relative to it, and never
    inside the run's data, because it would change how they are read.
    """
    queue, run = read_queue(folder), run_above(folder)
    classes, states, source = own_labels(RunFolder(run)) if run is not None else ((), {}, None)
    classes = classes or queue.classes
    decided = checked_decisions(
        reviewed, queue.files, classes, f"among the suggestions of {folder}", True, asked_about(folder)
    )
    changed = 0
    for (image, label), state in decided.items():
        labels = states.setdefault(os.path.realpath(queue.files.get(image, image)), {})
        changed += labels.get(label, state) != state
        labels[label] = state
    path = table_above(states, source, out)
    rows: list[tuple[str, ...]] = []
    for file, labels in states.items():
        name = os.path.relpath(file, os.path.realpath(path.parent))
        rows += [(name, label, f"{state:+d}") for label, state in labels.items()] or [(name, "", "")]
    for cell in {cell for row in rows for cell in row}:
        if cell != cell.strip() or any(ord(sign) < 32 or "\ud800" <= sign <= "\udfff" for sign in cell):
            raise UserError(
                f"the name {cell!r} cannot be written in a table: rename it (UTF-8, no spaces at either end)"
            )
    content = csv_text([HEADER, *rows]).encode()
    write_atomically(path, content)
    return _imported(path, run, decided, changed, hashlib.sha256(content).hexdigest(), table=True)


def asked_about(folder: Path) -> dict[str, list[str]]:
    """The labels that a folder's suggestions ask about, by image; none if there are no suggestions."""
    labels: dict[str, list[str]] = {}
    for suggestion in read_queue(folder).suggestions if (folder / SUGGESTIONS).is_file() else ():
        labels.setdefault(suggestion.image, []).append(suggestion.label)
    return labels


def run_above(folder: Path) -> Path | None:
    """The run that contains a folder of suggestions, under the name it was given if possible; None if there is none."""
    run = folder.resolve().parent
    if not RunFolder(run).labels_file.exists():
        return None
    return folder.parent if folder.parent.resolve() == run else run


def own_labels(run: RunFolder) -> tuple[tuple[str, ...], dict[str, dict[str, int]], Path | None]:
    """A run's classes, its labels by image file (empty if its images are not files), and the folder of its data."""
    from scob.recovery.images import image_paths
    from scob.training.run_data import listed_images

    config, labels = run.read_config(), run.labels()
    files = image_paths(listed_images(config)) or {}
    states = {
        os.path.realpath(files[image]): {labels.classes[c]: int(line[c]) for c in np.flatnonzero(line)}
        for image, line in zip(labels.images, labels.values, strict=True)
        if image in files
    }
    source = Path(config.data.source)
    return labels.classes, states, source.resolve() if source.is_dir() else None


def table_above(files: Iterable[str], source: Path | None, out: Path | None) -> Path:
    """The path for a table of these files: `out`, or by default the deepest folder that contains them all."""
    home = Path(os.path.commonpath([os.path.dirname(file) for file in files]))  # noqa: PTH120
    if source is not None and home.is_relative_to(source):
        home = source.parent
    if out is None and home == Path(home.anchor):
        raise UserError("the images have no common parent folder for the table: move them into one folder")
    if out is None:
        return free_path(Path(os.path.relpath(home)) / REVIEWED_TABLE)
    target = Path(os.path.realpath(out))
    if out.suffix.lower() != ".csv" or not home.is_relative_to(target.parent):
        raise UserError(
            f"{out} must end in .csv and be in {home} or above it: image paths in a table are relative to it"
        )
    return out


def _imported(
    path: Path, run: Path | None, decided: dict[Pair, int], changed: int, fingerprint: str, table: bool = False
) -> Imported:
    states = list(decided.values())
    return Imported(path, run, states.count(PRESENT), states.count(ABSENT), changed, fingerprint, table)


def checked_decisions(
    reviewed: Path,
    images: Collection[str],
    classes: Collection[str],
    where_else: str,
    paths: bool = False,
    asked: Mapping[str, Sequence[str]] | None = None,
) -> dict[Pair, int]:
    """The state of each (image, class) in a file of answers, checked against the known images and classes.

    `asked` has the labels that were suggested for each image. With `paths` an image may also be any file:
    an earlier decision may be about an image that is no longer suggested.
    """
    decided: dict[Pair, int] = {}
    for answer in read_given(reviewed, images, asked or {}):
        where, image, label, state = answer.where, answer.image, answer.label, answer.state
        if image not in images and not (paths and Path(image).is_file()):
            raise UserError(f"{where}: the image {image!r} is not {where_else}.{nearest(image, images)}")
        if label not in classes:
            raise UserError(f"{where}: there is no class {label!r}.{nearest(label, classes)}")
        if decided.setdefault((image, label), state) != state:
            raise UserError(f"{where}: {image!r} has {label!r} both confirmed and rejected; remove one of the two rows")
    if not decided:
        raise UserError(f"{reviewed} contains no decision: review some suggestions first, with scob review")
    return decided
