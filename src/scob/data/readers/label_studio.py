"""Label Studio's exports: JSON, JSON-MIN and CSV. What a person chose, or drew a box around, is present."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from scob.data.readers.named_images import NamedImages
from scob.data.readers.row_splits import UNSPLIT, Gathered, Row
from scob.data.readers.table_rows import csv_rows
from scob.data.readers.text_lists import class_list, read_text
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import PRESENT

EXPORT_COLUMNS = {"annotation_id", "lead_time"}  # of every JSON-MIN and CSV export
OTHER = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "sentiment", "agreement"}
LISTS = ("choices", "rectanglelabels", "polygonlabels", "brushlabels", "ellipselabels", "keypointlabels", "labels")
_UPLOAD = re.compile(r"^[0-9a-f]{8}-(?=.)")  # what Label Studio puts before the name of an uploaded file


@dataclass(frozen=True)
class Answer:
    """What one task says: the image's address, the name we gave it (or ''), what a person chose, what we suggested."""

    where: str
    image: str
    name: str
    chosen: tuple[str, ...]
    suggested: tuple[str, ...] = ()
    answered: bool = True


def recognises(source: Path) -> bool:
    """Whether this is a file that Label Studio exported."""
    if not source.is_file() or source.suffix.lower() not in (".json", ".csv"):
        return False
    with source.open("rb") as file:
        head = file.read(1 << 16).decode("utf-8-sig", errors="replace").lstrip()
    if source.suffix.lower() == ".csv":
        columns = {cell.strip().strip('"') for cell in head.partition("\n")[0].split(",")}
        return columns >= EXPORT_COLUMNS
    if not head.startswith("["):
        return False
    return ('"annotation_id"' in head and '"lead_time"' in head) or ('"data"' in head and (
        '"annotations"' in head or '"predictions"' in head
    ))  # fmt: skip


def title(source: Path, options: ReadOptions) -> str:
    """How many tasks have an answer, and how many classes these name."""
    answers = read_answers(source)
    names = {name for answer in answers if answer.answered for name in answer.chosen}
    done = sum(answer.answered for answer in answers)
    return f"an export of Label Studio, {done} of {len(answers)} tasks answered, {len(names)} classes"


def splits(source: Path) -> tuple[str, ...]:
    """An export is one split."""
    return (UNSPLIT,)


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """The images that a person answered; what was not chosen is unknown."""
    gathered = Gathered(source, NamedImages(source.parent), class_list(source.parent, options), options.skip_bad)
    gathered.add_all(_rows(source))
    return gathered.split(split, (UNSPLIT,))


def _rows(source: Path) -> Iterator[Row]:
    for answer in read_answers(source):
        if answer.answered:
            image = answer.name or file_name(answer.image, answer.where)
            yield Row(answer.where, image, dict.fromkeys(answer.chosen, PRESENT), None, True)


def read_answers(path: Path) -> list[Answer]:
    """The tasks of an export, each with its latest answer."""
    text = read_text(path)
    if path.suffix.lower() == ".csv":
        return _latest(_csv_answers(text, path.name))
    try:
        tasks = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UserError(f"{path} is not an export of Label Studio: it is not a list of tasks")
    return _latest(
        _task_answer(task, f"{path.name} task {number}")
        if "data" in task
        else _flat_answer(task, f"{path.name} task {number}")
        for number, task in enumerate(tasks, 1)
    )


def _latest(answers: Iterable[Answer]) -> list[Answer]:
    """One answer per image, the latest: the CSV and JSON-MIN exports have one row per answer."""
    latest: dict[tuple[str, str], Answer] = {}
    for answer in answers:
        latest[answer.image, answer.name] = answer
    return list(latest.values())


def _task_answer(task: dict[str, Any], where: str) -> Answer:
    """A task of the full JSON export, or of the tasks that we wrote."""
    data: Any = task.get("data")
    if not isinstance(data, dict):
        raise UserError(f"{where}: its data is not an object with an image")
    given = [a for a in _listed(task, "annotations", where) if isinstance(a, dict) and not a.get("was_cancelled")]
    last = max(given, key=_age, default=None)
    chosen = () if last is None else _names(_listed(last, "result", where))
    predictions = [p for p in _listed(task, "predictions", where) if isinstance(p, dict)]
    suggested = _names(r for p in predictions for r in _listed(p, "result", where))
    name = data.get("name")
    return Answer(where, _address(data, where), name if isinstance(name, str) else "", chosen, suggested,
                  last is not None)  # fmt: skip


def _listed(entry: dict[str, Any], key: str, where: str) -> list[Any]:
    """The list under a key; [] if there is none."""
    value = entry.get(key) or []
    if not isinstance(value, list):
        raise UserError(f"{where}: its {key!r} is not a list; export the project from Label Studio again")
    return value


def _age(annotation: dict[str, Any]) -> tuple[str, float]:
    """What is larger for a later answer."""
    number = annotation.get("id")
    return str(annotation.get("updated_at") or ""), number if isinstance(number, int | float) else 0


def _names(results: Iterable[Any]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        for listed in [value.get(key) for key in LISTS] if isinstance(value, dict) else ():
            names.update(dict.fromkeys(n for n in listed if isinstance(n, str)) if isinstance(listed, list) else {})
    return tuple(names)


def _flat_answer(task: dict[str, Any], where: str) -> Answer:
    """A task of the JSON-MIN export: the data's keys and, per control of the page, what was chosen."""
    address = _address(task, where)
    names: dict[str, None] = {}
    for key, value in task.items():
        if key in OTHER or value == address or key == "name":
            continue
        if isinstance(value, dict):
            names.update(dict.fromkeys(_names([{"value": value}])))
        elif isinstance(value, list):
            names.update(dict.fromkeys(_names({"value": each} for each in value)))
            names.update(dict.fromkeys(each for each in value if isinstance(each, str)))
        elif isinstance(value, str) and value:
            names[value] = None
    name = task.get("name")
    return Answer(where, address, name if isinstance(name, str) else "", tuple(names))


def _csv_answers(text: str, shown: str) -> Iterator[Answer]:
    rows = csv_rows(text, shown)
    _, header = next(rows, (1, []))
    for number, cells in rows:
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise UserError(f"{shown} row {number}: it has {len(cells)} cells, but the header names {len(header)}")
        task: dict[str, Any] = {}
        for name, cell in zip(header, cells, strict=True):
            value: Any = cell
            if cell[:1] in "[{" and cell:
                try:
                    value = json.loads(cell)
                except (ValueError, RecursionError):
                    value = cell
            task[name] = value
        yield _flat_answer(task, f"{shown} row {number}")


def _address(data: dict[str, Any], where: str) -> str:
    """The image of a task: the value of 'image', or the only one that looks like a file."""
    for key in ("image", "img", "picture", "photo", "url"):
        if isinstance(data.get(key), str) and data[key]:
            return str(data[key])
    paths = [v for k, v in data.items() if isinstance(v, str) and k not in OTHER and re.search(r"\.\w{3,4}$", v)]
    if len(paths) != 1:
        raise UserError(f"{where}: it does not name one image; its data must have a key 'image'")
    return str(paths[0])


def file_name(address: str, where: str) -> str:
    """The file behind an address of Label Studio's: local storage, an upload, or the end of any other path."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise UserError(f"{where}: {address!r} is not the address of an image ({error})") from None
    if parts.path.endswith("/data/local-files/"):
        return parse_qs(parts.query, encoding="utf-8", errors="surrogateescape").get("d", [""])[0]
    path = unquote(parts.path, errors="surrogateescape")
    if "/data/upload/" in path:
        return _UPLOAD.sub("", path.rpartition("/")[2])
    if parts.scheme in ("http", "https"):
        raise UserError(f"{where}: {address!r} is on another machine; download the images, and write their file names")
    return path.rpartition("/")[2] if parts.scheme else path
