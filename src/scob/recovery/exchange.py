"""Suggestions in the formats of other tools: CSV, COCO, Label Studio, FiftyOne, cleanlab."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scob.errors import UserError
from scob.files import csv_text, write_atomically
from scob.inference.regions import rle
from scob.labels import PRESENT
from scob.recovery.images import ScoredImages
from scob.recovery.label_studio_tasks import as_label_studio, label_studio_config, label_studio_steps
from scob.recovery.suggestion import Suggestion

Files = Mapping[str, str]  # the file of each image
Sizes = Mapping[str, tuple[int, int]]  # the height and width of each image
FORMATS = ("csv", "coco", "labelstudio", "fiftyone", "cleanlab")


def check_formats(formats: Iterable[str]) -> tuple[str, ...]:
    """The formats asked for, each once."""
    asked = tuple(dict.fromkeys(formats))
    for name in asked:
        if name not in FORMATS:
            raise UserError(f"there is no format {name!r}; the formats are {', '.join(FORMATS)}")
    return asked


def write_formats(
    folder: Path,
    formats: Sequence[str],
    suggestions: Sequence[Suggestion],
    images: ScoredImages,
    files: Files,
) -> list[Path]:
    """Write the suggestions in each format; returns the files."""
    classes = images.observed.classes
    row_of = {name: row for row, name in enumerate(images.observed.images)}

    @cache
    def shape(image: str) -> tuple[int, int]:
        height, width = images.split.images.load(row_of[image]).shape[:2]
        return height, width

    written: list[Path] = []
    for name in formats:
        contents: dict[str, bytes | str]
        if name == "csv":
            contents = {"suggestions.csv": as_csv(suggestions)}
        elif name == "coco":
            sizes = {s.image: shape(s.image) for s in suggestions}
            contents = {"coco.json": json.dumps(as_coco(suggestions, files, sizes, classes), indent=1)}
        elif name == "labelstudio":
            sizes = {s.image: shape(s.image) for s in suggestions}
            contents = {
                "labelstudio/tasks.json": json.dumps(as_label_studio(suggestions, files, sizes), indent=1),
                "labelstudio/config.xml": label_studio_config(classes),
            }
        elif name == "fiftyone":
            labels, manifest = as_fiftyone(suggestions, files, classes)
            contents = {
                "fiftyone/labels.json": json.dumps(labels, indent=1),
                "fiftyone/data.json": json.dumps(manifest),
            }
        else:
            contents = as_cleanlab(suggestions, images)
        for file, content in contents.items():
            write_atomically(folder / file, content)
            written.append(folder / file)
    return written


def as_csv(suggestions: Sequence[Suggestion]) -> bytes:
    """One row per suggestion, in rank order."""
    heads = ("rank", "image", "label", "confidence", "score", "estimate", "x0", "y0", "x1", "y1", "nearest")
    rows: list[tuple[object, ...]] = []
    for number, s in enumerate(suggestions, 1):
        estimate = "" if s.estimate is None else f"{s.estimate:.6f}"
        box = [f"{side:.5f}" for side in s.box] if s.box is not None else [""] * 4
        near = s.nearest[0][0] if s.nearest else ""
        rows.append((number, s.image, s.label, f"{s.confidence:.6f}", f"{s.score:.6f}", estimate, *box, near))
    return csv_text([heads, *rows]).encode("utf-8", "surrogateescape")


def as_coco(
    suggestions: Sequence[Suggestion],
    files: Files,
    sizes: Sizes,
    classes: Sequence[str],
) -> dict[str, Any]:
    """COCO object annotations with scores; a box is the box of its mask, and masks have the size of the image.

    Without a clear place the mask is empty. A suggestion whose place was not looked for has the whole image as its
    mask: COCO has no annotations without one.
    """
    numbers = {image: number for number, image in enumerate(sizes, 1)}
    category_of = {name: number for number, name in enumerate(classes, 1)}
    annotations = []
    for number, s in enumerate(suggestions, 1):
        height, width = sizes[s.image]
        mask = rle(np.full((height, width), s.boxes is None)) if s.mask is None else _at_size(s.mask, height, width)
        box, area = _box_and_area(mask)
        annotations.append({
            "id": number, "image_id": numbers[s.image], "category_id": category_of[s.label], "iscrowd": 0,
            "bbox": box, "area": area, "segmentation": mask, "score": round(s.confidence, 6),
        })  # fmt: skip
    images = [
        {"id": numbers[image], "file_name": files.get(image, image), "height": h, "width": w}
        for image, (h, w) in sizes.items()
    ]
    return {
        "info": {"description": "labels suggested by scob recover; each annotation has a score"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for name, number in category_of.items()],
    }


def _at_size(mask: Mapping[str, Any], height: int, width: int) -> Mapping[str, Any]:
    """A stored mask at the image's own size."""
    from pycocotools import mask as coco

    small = coco.decode({"size": mask["size"], "counts": mask["counts"].encode()})
    if small.shape == (height, width):
        return mask
    enlarged = Image.fromarray(small * np.uint8(255)).resize((width, height), Image.Resampling.BILINEAR)
    return rle(np.asarray(enlarged) >= 128)


def _box_and_area(mask: Mapping[str, Any]) -> tuple[list[float], int]:
    """A mask's box (x, y, width, height) and its area, in pixels."""
    from pycocotools import mask as coco

    encoded = {"size": mask["size"], "counts": mask["counts"].encode()}
    return [float(side) for side in coco.toBbox(encoded)], int(coco.area(encoded))


def as_fiftyone(
    suggestions: Sequence[Suggestion], files: Files, classes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """labels.json and data.json of a FiftyOneImageDetectionDataset; boxes are x, y, width, height in fractions.

    Images are numbered: FiftyOne cuts the suffix off the keys of data.json, so that file names would not be found.
    A detection for each part of a suggestion's mask; the whole image where there is no clear place.
    """
    column_of = {name: number for number, name in enumerate(classes)}
    key_of = {image: f"{number:07d}" for number, image in enumerate(dict.fromkeys(s.image for s in suggestions))}
    labels: dict[str, list[dict[str, Any]]] = {key: [] for key in key_of.values()}
    for s in suggestions:
        attributes = {"score": s.score, "estimate": s.estimate, "image": s.image, "observed": list(s.observed)}
        for x0, y0, x1, y1 in s.boxes or ((0.0, 0.0, 1.0, 1.0),):
            labels[key_of[s.image]].append({
                "label": column_of[s.label], "bounding_box": [x0, y0, x1 - x0, y1 - y0],
                "confidence": round(s.confidence, 6), "attributes": attributes,
            })  # fmt: skip
    return {"classes": list(classes), "labels": labels}, {key: files.get(image, image) for image, key in key_of.items()}


def how_to_load(folder: Path, formats: Sequence[str], files: Files) -> list[str]:
    """What to do with the files of each format, and what to know about them."""
    lines: list[str] = []
    if "labelstudio" in formats:
        lines += label_studio_steps(folder / "labelstudio", files)
    if "fiftyone" in formats:
        lines.append(
            "FiftyOne: fiftyone.Dataset.from_dir(dataset_type=fiftyone.types.FiftyOneImageDetectionDataset, "
            f"dataset_dir={str(folder / 'fiftyone')!r}, data_path='data.json', label_field='suggestions')"
        )
    if "cleanlab" in formats:
        lines.append("cleanlab knows no unknown labels: in labels.json, a class that nobody named counts as absent")
    return lines


def as_cleanlab(suggestions: Sequence[Suggestion], images: ScoredImages) -> dict[str, bytes | str]:
    """labels.json (a list of class numbers per image), pred_probs.npy (N, L) and the suggestions as issues.

    The first two are the arguments of `cleanlab.multilabel_classification.filter.find_label_issues`.
    """
    observed = images.observed
    row_of = {name: row for row, name in enumerate(observed.images)}
    given = [[int(c) for c in np.flatnonzero(line == PRESENT)] for line in observed.values]
    array = io.BytesIO()
    np.save(array, images.scores, allow_pickle=False)
    heads = ("index", "image", "class", "is_label_issue", "label_quality")
    # The quality of the given label "absent": the lower it is, the more likely the class is present.
    issues = [(row_of[s.image], s.image, s.label, True, f"{1 - s.confidence:.6f}") for s in suggestions]
    return {
        "cleanlab/labels.json": json.dumps(given),
        "cleanlab/pred_probs.npy": array.getvalue(),
        "cleanlab/classes.json": json.dumps(list(observed.classes)),
        "cleanlab/images.json": json.dumps(list(observed.images)),
        "cleanlab/issues.csv": csv_text([heads, *issues]).encode("utf-8", "surrogateescape"),
    }
