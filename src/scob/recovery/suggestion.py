"""Suggested labels: the record, and the files that `scob recover` writes and `scob review` reads.

A folder has `suggestions.jsonl` (one suggestion per line, the most confident first) and `images.json` (the file of each
image).
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scob.errors import UserError
from scob.files import remove_dead_parts, write_atomically

if TYPE_CHECKING:
    from scob.inference.regions import Box

RECOVERED, RECOVERED_IMAGES = "recovered", "recovered-images"  # folders in a run: its own images, and new ones
SUGGESTIONS, IMAGES = "suggestions.jsonl", "images.json"
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")

Pair = tuple[str, str]


@dataclass(frozen=True)
class Suggestion:
    """A label that an image may be missing, and the evidence for it.

    Suggestions are ranked by `confidence`, a calibrated probability. `estimate` is the label estimator's value, `mask`
    a COCO run-length mask, `boxes` x0, y0, x1, y1 in fractions of the image of each part of the mask, the largest
    first: none if there is no clear place, None if it was not looked for. `nearest` are the confirmed images most like
    it with their similarity, `observed` the labels already known.
    """

    image: str
    label: str
    score: float
    confidence: float
    estimate: float | None = None
    mask: Mapping[str, Any] | None = None
    boxes: "tuple[Box, ...] | None" = None
    nearest: tuple[tuple[str, float], ...] = ()
    observed: tuple[str, ...] = ()

    @property
    def box(self) -> "Box | None":
        """The box of the largest part."""
        return self.boxes[0] if self.boxes else None

    def to_json(self) -> dict[str, Any]:
        """One line of suggestions.jsonl."""
        return {
            "image": self.image,
            "class": self.label,
            "confidence": round(self.confidence, 6),
            "score": round(self.score, 6),
            "estimate": None if self.estimate is None else round(self.estimate, 6),
            "mask": self.mask,
            "box": None if self.box is None else _rounded(self.box),
            "boxes": None if self.boxes is None else [_rounded(box) for box in self.boxes],
            "nearest": [{"image": image, "score": round(score, 5)} for image, score in self.nearest],
            "observed": list(self.observed),
        }

    @classmethod
    def from_json(cls, row: Any) -> "Suggestion":
        """The suggestion of one line; a TypeError, ValueError or KeyError describes what is wrong with it."""
        if not isinstance(row, dict):
            raise TypeError("it is not a JSON object")
        box, boxes, mask = row.get("box"), row.get("boxes"), row.get("mask")
        if boxes is None and box is not None:  # written before there was one box per part
            boxes = [box]
        if boxes is not None and not isinstance(boxes, list):
            raise ValueError("'boxes' is not a list of boxes")
        if mask is not None and not (isinstance(mask, dict) and "size" in mask and "counts" in mask):
            raise ValueError("'mask' is not a COCO run-length mask")
        confidence = row["score"] if row.get("confidence") is None else row["confidence"]
        return cls(
            image=text(row["image"], "image"),
            label=text(row["class"], "class"),
            score=_share(row["score"], "score"),
            confidence=_share(confidence, "confidence"),
            estimate=None if row.get("estimate") is None else _share(row["estimate"], "estimate"),
            mask=mask,
            boxes=None if boxes is None else tuple(_box(box) for box in boxes),
            nearest=tuple(_neighbour(given) for given in row.get("nearest") or ()),
            observed=tuple(text(name, "observed") for name in row.get("observed") or ()),
        )


@dataclass(frozen=True)
class Queue:
    """Everything there is to review: suggestions in rank order, and the files of their images.

    `images` lists every image that a suggestion or its nearest instances name; the page asks for one by its position.
    """

    folder: Path
    suggestions: tuple[Suggestion, ...]
    images: tuple[str, ...]
    files: Mapping[str, Path]
    fingerprint: str

    def file(self, index: int) -> Path | None:
        """The file of image number `index`; None if it has none."""
        return self.files.get(self.images[index]) if 0 <= index < len(self.images) else None


def recovered_folder(run: Path) -> Path:
    """The folder with a run's suggestions; `run` may be that folder itself."""
    for folder in (run / RECOVERED, run):
        if (folder / SUGGESTIONS).is_file():
            return folder
    if not run.is_dir():
        raise UserError(f"there is no run folder at {run}")
    raise UserError(f"{run} contains no suggestions to review; make them with: scob recover {run}")


def write_queue(folder: Path, suggestions: Sequence[Suggestion], files: Mapping[str, str]) -> list[Path]:
    """Write suggestions.jsonl and images.json; `files` are absolute paths. Returns both files."""
    root = os.path.commonpath([os.path.dirname(path) for path in files.values()]) if files else None  # noqa: PTH120
    relative = {image: os.path.relpath(path, root) for image, path in files.items()}
    if root is not None and Path(root).is_relative_to(folder.absolute()):
        root = os.path.relpath(root, folder.absolute())  # pictures that we saved: the folder may be moved with them
    remove_dead_parts(folder)
    lines = "".join(json.dumps(s.to_json()) + "\n" for s in suggestions)
    write_atomically(folder / IMAGES, json.dumps({"root": root, "files": relative}, indent=1) + "\n")
    write_atomically(folder / SUGGESTIONS, lines)
    return [folder / SUGGESTIONS, folder / IMAGES]


def read_queue(folder: Path) -> Queue:
    """Read and check the suggestions of a folder; an error names the line."""
    path = folder / SUGGESTIONS
    raw = _read(path)
    suggestions: list[Suggestion] = []
    seen: dict[Pair, int] = {}
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            suggestion = Suggestion.from_json(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{path}, line {number} is not a suggestion: {what}; run scob recover again") from None
        pair = (suggestion.image, suggestion.label)
        if pair in seen:
            raise UserError(f"{path}, line {number} repeats the image and class of line {seen[pair]}; remove one")
        seen[pair] = number
        suggestions.append(suggestion)
    named = {s.image: None for s in suggestions} | {image: None for s in suggestions for image, _ in s.nearest}
    files, mapped = _image_files(folder)
    fingerprint = hashlib.sha256(raw + b"\0" + mapped).hexdigest()[:16]
    return Queue(folder, tuple(suggestions), tuple(named), files, fingerprint)


def text(value: Any, name: str) -> str:
    """A name: text that is not empty and could be a file name; otherwise a TypeError or ValueError."""
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name!r} is {value!r}, not a text")
    value.encode("utf-8", "surrogateescape")  # a ValueError for anything that no file name can contain
    return value


def _share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{name!r} is {value!r}, not a number")
    if not -1e-6 <= value <= 1 + 1e-6:
        raise ValueError(f"{name!r} is {value}, outside 0 to 1")
    return min(1.0, max(0.0, float(value)))


def _neighbour(given: Any) -> tuple[str, float]:
    score = float(given.get("score") or 0)
    if not math.isfinite(score):
        raise ValueError(f"the score of a nearest image is {score}, not a number")
    return text(given["image"], "nearest"), score


def _box(value: Any) -> "Box":
    if not (isinstance(value, list) and len(value) == 4):
        raise ValueError("'box' is not [x0, y0, x1, y1]")
    x0, y0, x1, y1 = (_share(side, "box") for side in value)
    return x0, y0, x1, y1


def _rounded(box: "Box") -> list[float]:
    return [round(side, 5) for side in box]


def _image_files(folder: Path) -> tuple[dict[str, Path], bytes]:
    """The file of each image: as listed in `images.json`, or else the pictures in `images/`."""
    path = folder / IMAGES
    if not path.is_file():
        pictures = sorted(p for p in (folder / "images").glob("*") if p.suffix.lower() in PICTURES)
        return {p.stem: p for p in pictures}, json.dumps([p.name for p in pictures]).encode()
    raw = _read(path)
    try:
        given = json.loads(raw)
        root, names = given.get("root"), given["files"]
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise TypeError("'files' is not a map from image to path")
        base = folder / root if root else folder
        files = {image: base / name for image, name in names.items() if _stays_inside(name, base)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} does not map images to files: {error}; run scob recover again") from None
    return files, raw


def _stays_inside(name: str, root: Path) -> bool:
    """Whether a path, absolute or relative to its root, is below that root."""
    plain, top = Path(os.path.normpath(root / name)), Path(os.path.normpath(root))
    return "\0" not in name and plain.is_relative_to(top)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; make it with scob recover") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
