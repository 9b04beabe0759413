"""Where COCO annotation files lie, and where the images they name.

COCO itself: annotations/instances_*.json beside one folder of images per split. Others: annotations.json, Roboflow's
_annotations.coco.json in each split's folder, or any COCO file that the user names.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob.data.readers.folder import SPLIT_NAMES
from scob.errors import UserError

_NAME = re.compile(r"instances_(.+)\.json$")
ELSEWHERE = ("annotations.json", "_annotations.coco.json", "labels.json", "result.json", "coco.json")
HEAD = 1 << 16  # bytes of a file that show what it is
TAIL = 1 << 20


@dataclass(frozen=True)
class CocoFile:
    """An annotation file and the folder that has it and its images. `classic`: images are in a folder per split."""

    path: Path
    home: Path
    classic: bool = True

    def relative(self, split: str, file_name: str) -> str:
        """The path of an image relative to `home`."""
        if self.classic:
            for folder in (split, f"images/{split}", "images"):
                if (self.home / folder).is_dir():
                    return f"{folder}/{file_name}"
            raise UserError(f"{self.home} has no folder {split!r} of images; unpack the images of that split there")
        beside = os.path.relpath(self.path.parent, self.home)
        for folder in (beside, f"{beside}/images", ".", "images", split, f"images/{split}", f"{beside}/data"):
            if os.path.isfile(self.home / folder / file_name):  # noqa: PTH113 (False for a name that is too long)
                return os.path.normpath(f"{folder}/{file_name}").replace(os.sep, "/")
        return file_name


def coco_files(source: Path) -> dict[str, CocoFile]:
    """The annotation file of each split; `source` may also be such a file."""
    if source.is_file():
        return _single(source) if source.suffix.lower() == ".json" and is_coco(source) else {}
    if not source.is_dir():
        return {}
    files: dict[str, CocoFile] = {}
    for folder in (source, source / "annotations"):
        for path in sorted(folder.glob("instances_*.json")):
            match = _NAME.match(path.name)
            if match and path.is_file():
                files[match[1]] = CocoFile(path, source)
    return files or _others(source)


def _single(path: Path) -> dict[str, CocoFile]:
    match = _NAME.match(path.name)
    home = path.parent.parent if path.parent.name == "annotations" else path.parent
    return {match[1] if match else _split_name(path): CocoFile(path, home, match is not None and home != path.parent)}


def _split_name(path: Path) -> str:
    return next((name for name in (path.stem, path.parent.name) if name in SPLIT_NAMES), "train")


def _others(source: Path) -> dict[str, CocoFile]:
    """Other annotation files: in the folder of each split, in annotations/, or beside the images."""
    files: dict[str, CocoFile] = {}
    for folder in (source / name for name in SPLIT_NAMES):
        for path in (folder / name for name in ELSEWHERE):
            if folder.name not in files and path.is_file() and is_coco(path):
                files[folder.name] = CocoFile(path, source, False)
    for path in () if files else sorted((source / "annotations").glob("*.json")):
        if is_coco(path):
            files.setdefault(_split_name(path), CocoFile(path, source, False))
    for path in () if files else (source / name for name in ELSEWHERE):
        if not files and path.is_file() and is_coco(path):
            files["train"] = CocoFile(path, source, False)
    return files


def is_coco(path: Path) -> bool:
    """Whether a JSON file is an object with images, annotations and categories, by its beginning and its end."""
    try:
        text = _ends(path)
    except OSError:
        return False
    keys = ("images", "annotations", "categories")
    if not text.lstrip("\ufeff \r\n\t").startswith("{"):
        return False
    found = [key for key in keys if f'"{key}"' in text]
    if len(found) == len(keys):
        return True
    # One key lies in the middle of a large file: two of the three, and nothing else is so large.
    return len(found) == 2 and path.stat().st_size > HEAD + TAIL


def _ends(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(HEAD)
        file.seek(max(len(head), path.stat().st_size - TAIL))
        return (head + b"\n" + file.read()).decode("utf-8", errors="replace")


def count_categories(path: Path) -> int:
    """How many categories a file lists, without reading its annotations if that can be avoided."""
    text = _ends(path)
    at = text.find('"categories"')
    try:
        start = text.index("[", at) if at >= 0 else -1
        listed, _ = json.JSONDecoder().raw_decode(text, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        listed = None
    try:
        tree = None if isinstance(listed, list) else json.loads(path.read_bytes())
        categories: Any = listed if tree is None else tree["categories"]
        return len(without_umbrella(categories, None))
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def without_umbrella(categories: Sequence[Any], marks: Sequence[Any] | None) -> list[Any]:
    """The categories without Roboflow's first one, which is the supercategory of all others and has no object."""
    first, rest = categories[0] if categories else None, list(categories[1:])
    if (
        rest
        and isinstance(first, dict)
        and all(isinstance(c, dict) and c.get("supercategory") == first.get("name") for c in rest)
        and first.get("supercategory") == "none"
        and not any(isinstance(m, dict) and m.get("category_id") == first.get("id") for m in marks or ())
    ):
        return rest
    return list(categories)
