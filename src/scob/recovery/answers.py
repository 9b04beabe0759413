"""A person's answers, from whatever file they come in: our reviewed.csv and decision log, or Label Studio's exports."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scob.data.readers import label_studio
from scob.data.readers.named_images import ending_alike
from scob.data.readers.table_rows import csv_rows, state_of
from scob.data.readers.text_lists import read_text
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT
from scob.recovery.decisions import ACCEPT, HEADER, REJECT, DecisionLog


@dataclass(frozen=True)
class GivenAnswer:
    """One answer, and where it is written."""

    where: str
    image: str
    label: str
    state: int


def read_given(path: Path, images: Collection[str], suggested: Mapping[str, Iterable[str]]) -> list[GivenAnswer]:
    """Every answer in a file. `images` are the known names; `suggested` has the labels that each image was asked about.

    In Label Studio, what a person left unticked although it was suggested is not there.
    """
    if label_studio.recognises(path):
        return _from_label_studio(path, images, suggested)
    if path.suffix.lower() == ".jsonl":
        return _from_log(path)
    if path.suffix.lower() == ".json":
        raise UserError(f"{path} is not an export of Label Studio; give one (JSON, JSON-MIN or CSV), or a reviewed.csv")
    return _from_reviewed(path)


def _from_reviewed(path: Path) -> list[GivenAnswer]:
    """The rows of a reviewed.csv. Names are kept verbatim, spaces included."""
    rows = csv_rows(read_text(path, exact=True), str(path))
    _, header = next(rows, (1, []))
    if [cell.strip().lower() for cell in header[:3]] != list(HEADER):
        raise UserError(f"{path}: its first line must be image,label,state, as scob review writes it")
    given: list[GivenAnswer] = []
    for number, cells in rows:
        if not any(cells):
            continue
        if len(cells) < 3:
            raise UserError(f"{path} row {number}: it has {len(cells)} cells, not image,label,state")
        state = state_of(cells[2])
        if state not in (PRESENT, ABSENT):
            raise UserError(f"{path} row {number}: {cells[2]!r} is not a state; write +1 (confirmed) or -1 (rejected)")
        given.append(GivenAnswer(f"{path} row {number}", cells[0], cells[1], state))
    return given


def _from_log(path: Path) -> list[GivenAnswer]:
    """The decisions of a log: the latest about each image and class."""
    try:
        first = json.loads(read_text(path).partition("\n")[0] or "{}")
    except (ValueError, RecursionError):
        first = None
    if not isinstance(first, dict) or "decision" not in first:
        raise UserError(f"{path} is not a log of decisions; give the decisions.jsonl or reviewed.csv of scob review")
    states = {ACCEPT: PRESENT, REJECT: ABSENT}
    log = DecisionLog(path.parent, path.name)
    return [GivenAnswer(str(path), *pair, states[answer]) for pair, answer in log.state().items() if answer in states]


def _from_label_studio(
    path: Path, images: Collection[str], suggested: Mapping[str, Iterable[str]]
) -> list[GivenAnswer]:
    given: list[GivenAnswer] = []
    for answer in label_studio.read_answers(path):
        if not answer.answered:
            continue
        image = answer.name or _image_at(label_studio.file_name(answer.image, answer.where), images, answer.where)
        left = dict.fromkeys([*answer.suggested, *suggested.get(image, ())])
        given += [GivenAnswer(answer.where, image, label, PRESENT) for label in answer.chosen]
        given += [GivenAnswer(answer.where, image, label, ABSENT) for label in left if label not in answer.chosen]
    return given


def _image_at(file: str, images: Collection[str], where: str) -> str:
    """The image whose name ends as the file does."""
    ends = ending_alike(file, {name: name for name in images})
    if len(ends) > 1:
        raise UserError(f"{where}: {file!r} could be {ends[0]} or {ends[1]}")
    return ends[0] if ends else file
