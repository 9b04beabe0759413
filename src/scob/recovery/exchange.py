"""Suggestions in the forms that other tools read: our own queue, CSV, COCO, Label Studio, FiftyOne, cleanlab."""

import io
import json
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scob.data.feed import unwrap
from scob.data.images import ImageFiles
from scob.data.split import Split
from scob.errors import UserError
from scob.files import csv_text, write_atomically
from scob.inference.explain import png
from scob.labels import PRESENT, Labels

if TYPE_CHECKING:
    from scob.recovery.suggest import Suggestion

FORMATS = ("csv", "coco", "labelstudio", "fiftyone", "cleanlab")


def check_formats(formats: Iterable[str]) -> tuple[str, ...]:
    """The formats asked for, each once."""
    asked = tuple(dict.fromkeys(formats))
    for name in asked:
        if name not in FORMATS:
            raise UserError(f"there is no format {name!r}; the formats are {', '.join(FORMATS)}")
    return asked


def image_paths(split: Split) -> dict[str, str] | None:
    """The file of every image of a split; None where they are not files."""
    images, chosen = unwrap(split.images)
    if not isinstance(images, ImageFiles):
        return None
    rows = range(len(split)) if chosen is None else chosen.tolist()
    return {
        name: os.path.abspath(images.paths[row])  # noqa: PTH100 (links stay as they are)
        for name, row in zip(split.labels.images, rows, strict=True)
    }


def write_queue(
    folder: Path, suggestions: "Sequence[Suggestion]", split: Split, confirmed: Split | None = None
) -> list[Path]:
    """suggestions.jsonl and images.json for `scob review`; pictures that are no files are written beside them."""
    named = dict.fromkeys(s.image for s in suggestions)
    near = dict.fromkeys(image for s in suggestions for image, _ in s.nearest if image not in named)
    files = _files_of(folder, list(named), split) | _files_of(folder, list(near), confirmed)
    root = os.path.commonpath([os.path.dirname(p) for p in files.values()]) if files else None  # noqa: PTH120
    relative = {image: os.path.relpath(path, root) for image, path in files.items()}
    if root is not None and Path(root).is_relative_to(folder.absolute()):
        root = os.path.relpath(root, folder.absolute())  # our own pictures: the folder may be moved
    lines = "".join(json.dumps(s.to_json()) + "\n" for s in suggestions)
    write_atomically(folder / "images.json", json.dumps({"root": root, "files": relative}, indent=1) + "\n")
    write_atomically(folder / "suggestions.jsonl", lines)
    return [folder / "suggestions.jsonl", folder / "images.json"]


def _files_of(folder: Path, names: list[str], split: Split | None) -> dict[str, str]:
    if split is None or not names:
        return {}
    paths = image_paths(split)
    if paths is not None:
        return {name: paths[name] for name in names if name in paths}
    place = {name: row for row, name in enumerate(split.labels.images)}
    found: dict[str, str] = {}
    for name in names:
        if name not in place:
            continue
        path = folder.absolute() / "images" / f"{place[name]:07d}.png"
        write_atomically(path, png(Image.fromarray(split.images.load(place[name]))))
        found[name] = str(path)
    return found


def write_formats(
    folder: Path,
    formats: Sequence[str],
    suggestions: "Sequence[Suggestion]",
    split: Split,
    observed: Labels,
    scores: NDArray[np.float32],
    classes: Sequence[str],
) -> list[Path]:
    """Write the suggestions in each format; returns the files."""
    files = image_paths(split) or _stored(folder)

    @cache
    def shape(row: int) -> tuple[int, int]:
        height, width = split.images.load(row).shape[:2]
        return height, width

    written: list[Path] = []
    for name in formats:
        made: dict[str, bytes | str]
        if name == "csv":
            made = {"suggestions.csv": as_csv(suggestions)}
        elif name == "coco":
            sizes = {s.image: shape(s.row) for s in suggestions}
            made = {"coco.json": json.dumps(as_coco(suggestions, files, sizes, classes), indent=1)}
        elif name == "labelstudio":
            sizes = {s.image: shape(s.row) for s in suggestions}
            made = {
                "labelstudio/tasks.json": json.dumps(as_label_studio(suggestions, files, sizes), indent=1),
                "labelstudio/config.xml": label_studio_config(classes),
            }
        elif name == "fiftyone":
            labels, manifest = as_fiftyone(suggestions, files, classes)
            made = {"fiftyone/labels.json": json.dumps(labels, indent=1), "fiftyone/data.json": json.dumps(manifest)}
        else:
            made = as_cleanlab(suggestions, observed, scores)
        for file, content in made.items():
            write_atomically(folder / file, content)
            written.append(folder / file)
    return written


def _stored(folder: Path) -> dict[str, str]:
    """Where `write_queue` put pictures that were no files."""
    made = json.loads((folder / "images.json").read_text())
    base = folder.absolute() / (made["root"] or "")
    return {image: str(base / name) for image, name in made["files"].items()}


def as_csv(suggestions: "Sequence[Suggestion]") -> bytes:
    """A row a suggestion, ranked."""
    heads = ("rank", "image", "label", "confidence", "score", "estimate", "x0", "y0", "x1", "y1", "nearest")
    rows: list[tuple[object, ...]] = []
    for number, s in enumerate(suggestions, 1):
        estimate = "" if s.estimate is None else f"{s.estimate:.6f}"
        box = [f"{side:.5f}" for side in s.box] if s.box is not None else [""] * 4
        near = s.nearest[0][0] if s.nearest else ""
        rows.append((number, s.image, s.label, f"{s.confidence:.6f}", f"{s.score:.6f}", estimate, *box, near))
    return csv_text([heads, *rows]).encode("utf-8", "surrogateescape")


def as_coco(
    suggestions: "Sequence[Suggestion]",
    files: dict[str, str],
    sizes: dict[str, tuple[int, int]],
    classes: Sequence[str],
) -> dict[str, Any]:
    """COCO object annotations with scores; masks and boxes at the size of the image."""
    numbers = {image: number for number, image in enumerate(sizes, 1)}
    category = {name: number for number, name in enumerate(classes, 1)}
    annotations = []
    for number, s in enumerate(suggestions, 1):
        height, width = sizes[s.image]
        x0, y0, x1, y1 = s.box if s.box is not None else (0.0, 0.0, 1.0, 1.0)
        box = [x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height]
        mask = None if s.mask is None else _at_size(s.mask, height, width)
        annotations.append({
            "id": number, "image_id": numbers[s.image], "category_id": category[s.label], "iscrowd": 0,
            "bbox": [round(side, 2) for side in box], "area": _area(mask) if mask else round(box[2] * box[3], 2),
            "segmentation": mask or [], "score": round(s.confidence, 6),
        })  # fmt: skip
    images = [
        {"id": numbers[image], "file_name": files.get(image, image), "height": h, "width": w}
        for image, (h, w) in sizes.items()
    ]
    return {
        "info": {"description": "labels suggested by scob recover; each annotation has a score"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for name, number in category.items()],
    }


def _at_size(mask: dict[str, Any], height: int, width: int) -> dict[str, Any]:
    """A stored mask at the image's own size."""
    from pycocotools import mask as coco

    from scob.inference.explain import rle

    small = coco.decode({"size": mask["size"], "counts": mask["counts"].encode()})
    if small.shape == (height, width):
        return mask
    grown = Image.fromarray(small * np.uint8(255)).resize((width, height), Image.Resampling.BILINEAR)
    return rle(np.asarray(grown) >= 128)


def _area(mask: dict[str, Any]) -> int:
    from pycocotools import mask as coco

    return int(coco.area({"size": mask["size"], "counts": mask["counts"].encode()}))


def as_label_studio(
    suggestions: "Sequence[Suggestion]", files: dict[str, str], sizes: dict[str, tuple[int, int]]
) -> list[dict[str, Any]]:
    """One task an image, with a prediction of classes and boxes; images are served from local storage."""
    tasks: dict[str, dict[str, Any]] = {}
    for s in suggestions:
        path = files.get(s.image, s.image)
        task = tasks.setdefault(s.image, {
            "data": {"image": f"/data/local-files/?d={quote(os.fsencode(path.lstrip('/')))}", "name": s.image},
            "predictions": [{"model_version": "scob", "score": s.confidence, "result": []}],
        })  # fmt: skip
        result = task["predictions"][0]["result"]
        height, width = sizes[s.image]
        common = {
            "to_name": "image",
            "score": round(s.confidence, 6),
            "original_width": width,
            "original_height": height,
        }
        choices = next((r for r in result if r["type"] == "choices"), None)
        if choices is None:
            choices = {"from_name": "present", "to_name": "image", "type": "choices", "value": {"choices": []}}
            result.append(choices)
        choices["value"]["choices"].append(s.label)
        if s.box is not None:
            x0, y0, x1, y1 = (100 * side for side in s.box)
            value = {"x": x0, "y": y0, "width": x1 - x0, "height": y1 - y0, "rotation": 0, "rectanglelabels": [s.label]}
            result.append({**common, "from_name": "where", "type": "rectanglelabels", "value": value})
    return list(tasks.values())


def label_studio_config(classes: Sequence[str]) -> str:
    """The labelling interface that the tasks fit."""
    labels = "".join(f"    <Label value={quoteattr(name)}/>\n" for name in classes)
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in classes)
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <Choices name="present" toName="image" choice="multiple">\n{choices}  </Choices>\n'
        f'  <RectangleLabels name="where" toName="image">\n{labels}  </RectangleLabels>\n</View>\n'
    )


def as_fiftyone(
    suggestions: "Sequence[Suggestion]", files: dict[str, str], classes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """labels.json and data.json of a FiftyOneImageDetectionDataset; boxes are x, y, width, height in fractions."""
    place = {name: number for number, name in enumerate(classes)}
    labels: dict[str, list[dict[str, Any]]] = {}
    for s in suggestions:
        x0, y0, x1, y1 = s.box if s.box is not None else (0.0, 0.0, 1.0, 1.0)
        attributes = {"score": s.score, "estimate": s.estimate, "image": s.image}
        labels.setdefault(s.image, []).append({
            "label": place[s.label], "bounding_box": [x0, y0, x1 - x0, y1 - y0],
            "confidence": round(s.confidence, 6), "attributes": attributes,
        })  # fmt: skip
    return {"classes": list(classes), "labels": labels}, {image: files.get(image, image) for image in labels}


def as_cleanlab(
    suggestions: "Sequence[Suggestion]", observed: Labels, scores: NDArray[np.float32]
) -> dict[str, bytes | str]:
    """labels.json (a list of class numbers an image), pred_probs.npy (N, L) and the issues we found.

    They are the two arguments of `cleanlab.multilabel_classification.filter.find_label_issues`.
    """
    given = [[int(c) for c in np.flatnonzero(line == PRESENT)] for line in observed.values]
    array = io.BytesIO()
    np.save(array, scores, allow_pickle=False)
    heads = ("index", "image", "class", "is_label_issue", "label_quality")
    # The quality of the given label "absent": the lower, the surer we are that it is present.
    issues = [(s.row, s.image, s.label, True, f"{1 - s.confidence:.6f}") for s in suggestions]
    return {
        "cleanlab/labels.json": json.dumps(given),
        "cleanlab/pred_probs.npy": array.getvalue(),
        "cleanlab/classes.json": json.dumps(list(observed.classes)),
        "cleanlab/images.json": json.dumps(list(observed.images)),
        "cleanlab/issues.csv": csv_text([heads, *issues]).encode("utf-8", "surrogateescape"),
    }
