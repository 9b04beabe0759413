"""Explaining predictions: where in each image the model sees a class, as a map, a mask and a box."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scob.algorithm.cam import CAMS, MapSettings
from scob.data.find_images import find_images
from scob.data.images import decode
from scob.data.progress import Progress, part
from scob.errors import UserError, nearest
from scob.files import named, write_atomically
from scob.inference.class_maps import EXPLAINED
from scob.inference.decoding import Pixels, decoded_batches, name_of
from scob.inference.locate import locate, scored_views
from scob.inference.model import InferenceOptions, Scob
from scob.inference.overlays import overlay, png, shrink, unique_names
from scob.inference.parts import Place
from scob.inference.predictions import NamedPerImage, NamingRule
from scob.inference.regions import Box, rle
from scob.inference.sheet import ROWS, Row, Sheet, row_of, sheet_picture
from scob.inference.sheet_page import sheet_page

if TYPE_CHECKING:
    from scob.inference.decoding import Picture

OVERLAY_SIDE = 1024  # pixels of an overlay's longer side, at most


@dataclass(frozen=True)
class Explanation:
    """One class in one image: its map `heat` (h, w) in [0, 1] and its `place`, None where there is no clear place.

    The map is the class's own; the place is what the image's other classes leave of it. A broken image has an `error`
    and nothing else.
    """

    image: str
    label: str = ""
    score: float = 0.0
    heat: NDArray[np.float32] | None = None
    place: Place | None = None
    error: str = ""

    @property
    def boxes(self) -> tuple[Box, ...]:
        """A box for each object-like part, the largest first, in fractions of the image; empty: no clear place."""
        return () if self.place is None else self.place.boxes

    @property
    def box(self) -> Box | None:
        """The box of the largest part."""
        return self.boxes[0] if self.place is not None else None

    def mask(self, height: int, width: int) -> NDArray[np.bool_]:
        """The foreground at any size, (height, width): all parts; empty if there is no clear place."""
        return np.zeros((height, width), bool) if self.place is None else self.place.mask(height, width)


@dataclass(frozen=True)
class ExplanationFiles:
    """What `explain` writes beside `explanations.json`.

    Masks (none, png, or rle inside the JSON), overlays, and a contact sheet (sheet.png and sheet.html).
    """

    masks: str = "rle"
    overlays: bool = True
    sheet: bool = False

    def __post_init__(self) -> None:
        if self.masks not in ("none", "png", "rle"):
            raise UserError(f"--masks is {self.masks!r}: use none, png or rle")


def class_numbers(names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """The columns of the named classes."""
    column_of = {name: number for number, name in enumerate(classes)}
    for name in names:
        if name not in column_of:
            known = ", ".join(classes[:20]) + (", ..." if len(classes) > 20 else "")
            raise UserError(f"the model has no class {name!r}.{nearest(name, classes)} Its classes: {known}")
    return [column_of[name] for name in names]


def explain_images(
    model: Scob,
    pictures: "Sequence[Picture]",
    classes: Sequence[str] | NamedPerImage | NamingRule = NamingRule(),
    maps: MapSettings = EXPLAINED,
    batch: int = 16,
    progress: Progress | None = None,
) -> Iterator[Explanation]:
    """Explanations, image by image, of every class that `classes` names (for all images, or each) or selects.

    The backbone runs once per image (twice with `maps.mirror`); only the head is differentiated, for all pairs of a
    batch together. Scores are those of `predict`.
    """
    wanted = _columns_for(model, len(pictures), classes)
    done = 0
    with closing(decoded_batches(pictures, model.size, batch)) as batches:
        for group in batches:
            readable = [(number, pixels) for number, pixels, _ in group if pixels is not None]
            explained = _explained(model, pictures, readable, wanted, maps)
            for number, pixels, error in group:
                if pixels is None:
                    yield Explanation(name_of(pictures[number], number), error=error)
                else:
                    yield from next(explained)
            done += len(group)
            if progress is not None:
                progress(done, len(pictures))


def _columns_for(
    model: Scob, images: int, classes: Sequence[str] | NamedPerImage | NamingRule
) -> Callable[[int, NDArray[np.float32]], list[int]]:
    """The columns to explain of an image, by its number and its scores (L,)."""
    if isinstance(classes, NamingRule):
        return lambda number, scores: classes.columns(scores, model.thresholds)
    if isinstance(classes, NamedPerImage):
        if len(classes.names) != images:
            raise UserError(f"classes are named for {len(classes.names)} images, but there are {images}")
        each = [class_numbers(names, model.classes) for names in classes.names]
        return lambda number, scores: each[number]
    same = class_numbers(classes, model.classes)
    return lambda number, scores: same


def _explained(
    model: Scob,
    pictures: "Sequence[Picture]",
    readable: Sequence[tuple[int, Pixels]],
    wanted: Callable[[int, NDArray[np.float32]], list[int]],
    maps: MapSettings,
) -> Iterator[list[Explanation]]:
    """The explanations of each readable picture of a batch, given as its number and its pixels."""
    if not readable:
        return
    numbers = iter(number for number, _ in readable)
    for views, scores in scored_views(model, np.stack([pixels for _, pixels in readable]), maps.mirror):
        own = [next(numbers) for _ in scores]
        columns = [wanted(number, line) for number, line in zip(own, scores, strict=True)]
        located = locate(model, views, scores, columns, maps)
        pairs = iter(zip(located.heats, located.places, strict=True))
        for number, line, asked in zip(own, scores, columns, strict=True):
            name = name_of(pictures[number], number)
            yield [Explanation(name, model.classes[c], float(line[c]), *next(pairs)) for c in asked]


def explain(
    model: str | Path,
    images: Iterable[str | Path],
    out: Path,
    classes: Sequence[str] | NamingRule = NamingRule(),
    maps: MapSettings = EXPLAINED,
    files: ExplanationFiles = ExplanationFiles(),
    running: InferenceOptions = InferenceOptions(),
) -> dict[str, Any]:
    """`scob explain`: write overlays, masks, a sheet and `explanations.json` to the folder `out`; returns counts.

    `classes` are names, or a rule that selects the predicted ones. Masks have the size of their image: PNG files, or
    COCO run lengths in `explanations.json`. The word '-' among `images` reads a list of files from stdin.
    """
    if maps.cam not in CAMS:
        raise UserError(f"--cam is {maps.cam!r}: use {', '.join(CAMS[:-1])} or {CAMS[-1]}")
    image_files = find_images(images, sys.stdin)
    paths = image_files.paths
    scob = Scob.from_pretrained(model, running.device)
    image_names = unique_names(paths, [Path(path).stem for path in paths])
    class_names = unique_names(scob.classes, scob.classes)
    on_sheet = dict.fromkeys(paths[:ROWS]) if files.sheet else {}
    records: list[dict[str, Any]] = []
    rows: dict[str, Row] = {}
    explanations = explain_images(scob, paths, classes, maps, running.batch, part(running.progress, "explaining"))
    for image, group in groupby(explanations, key=lambda e: e.image):
        own = list(group)
        if own[0].error:
            records.append({"image": image, "error": own[0].error})
            rows[image] = Row(image, None, error=own[0].error)
            continue
        pixels = decode(image)
        records += [_write(out, f"{image_names[image]}.{class_names[e.label]}", pixels, e, files) for e in own]
        if image in on_sheet:
            rows[image] = row_of(image, pixels, own)
    write_atomically(out / "explanations.json", json.dumps(records, indent=1) + "\n")
    if files.sheet:
        shown = [rows[image] if image in rows else row_of(image, decode(image), ()) for image in on_sheet]
        sheet = Sheet.of(f"Where the model {named(Path(model)).name} sees each class", shown, len(paths))
        write_atomically(out / "sheet.png", png(sheet_picture(sheet)))
        write_atomically(out / "sheet.html", sheet_page(sheet))
    broken = sum("error" in record for record in records)
    return {
        "images": len(paths), "explained": len(records) - broken, "broken": broken, "skipped": image_files.skipped,
        "unclear": sum(not record.get("clear_place", True) for record in records),
        "named": dict(Counter(record["class"] for record in records if "class" in record).most_common()),
    }  # fmt: skip


def _write(out: Path, stem: str, pixels: Pixels, e: Explanation, files: ExplanationFiles) -> dict[str, Any]:
    """Write the files of one explanation; returns its record. Without a clear place there is no mask and no box."""
    record: dict[str, Any] = {
        "image": e.image, "class": e.label, "score": round(e.score, 6),
        "clear_place": e.place is not None, "box": e.box, "boxes": e.boxes,
    }  # fmt: skip
    if files.overlays:
        record["overlay"] = f"overlays/{stem}.png"
        write_atomically(out / record["overlay"], png(overlay(shrink(pixels, OVERLAY_SIDE), e)))
    if files.masks != "none":
        record["mask"] = None
    if e.place is None:
        return record
    mask = e.mask(pixels.shape[0], pixels.shape[1])
    if files.masks == "rle":
        record["mask"] = rle(mask)
    elif files.masks == "png":
        record["mask"] = f"masks/{stem}.png"
        write_atomically(out / record["mask"], png(Image.fromarray(mask.astype(np.uint8) * 255)))
    return record
