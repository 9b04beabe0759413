"""fig-masks and fig-class-masks: which part of an image the masks of Eq. 3 keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.data.split import Split
from scob.draws import mix, seed_key
from scob.errors import UserError
from scob.inference import plots
from scob.inference.guidance_masks import guidance_settings, maps_of_pairs
from scob.labels import PRESENT
from scob.studies.reproduce import figures, variants
from scob.studies.reproduce.cams import model_of
from scob.studies.reproduce.lab import Lab, ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_figure
from scob.studies.reproduce.report import Cell, Column, Report, write_report

SIDE = 224  # pixels of a picture in a figure
DIMMED = 0.22  # brightness of what a mask hides
SPECK, SMALL = 0.01, 0.03  # shares of the image: invisible on any grid, hardly visible on a coarse one
DARK = "In a picture that is dark all over, no cell reached the threshold; in training, such a mask hides nothing."
EXAMINED = 400  # images whose segmentation is read to find small and large objects


@dataclass(frozen=True)
class ShownObject:
    """An object to show: the row of its image, its class, its share of the pixels (None: unknown), and how many other
    classes the image shows."""

    row: int
    label: int
    area: float | None
    others: int


Trio = tuple[ShownObject, ShownObject, ShownObject]


def objects_of(split: Split, seed: int = 0) -> list[ShownObject]:
    """The objects of some images of the split, in an order drawn by image id."""
    order = np.argsort(mix(split.labels.keys, seed_key(seed, "pictures")), kind="stable")[:EXAMINED]
    objects = []
    for row in order:
        labels = np.flatnonzero(split.labels.values[row] == PRESENT)
        masks = split.masks.load(int(row)) if split.masks is not None else None
        for label in labels:
            mask = masks.present.get(int(label)) if masks is not None else None
            area = None if mask is None else float(mask.mean())
            objects.append(ShownObject(int(row), int(label), area, len(labels) - 1))
    if not objects:
        raise UserError(f"the split {split.name!r} has no known positive label, so there is nothing to show")
    return objects


def shown_split(lab: Lab) -> Split:
    """The reported split, or the training images if there is none."""
    data = lab.data(lab.config(variants.SCOB))
    return data.evaluate if data.evaluate is not None else data.train


def pictures(
    outcome: VariantRun, split: Split, objects: Sequence[ShownObject], device: torch.device
) -> list[NDArray[np.uint8]]:
    """The image of each object with everything outside the object's mask dimmed, (SIDE, SIDE, 3)."""
    rows = np.array([shown.row for shown in objects], dtype=np.int64)
    labels = np.array([shown.label for shown in objects], dtype=np.int64)
    model, settings = model_of(outcome, device), guidance_settings(outcome.config)
    _, masks = maps_of_pairs(model, settings, split, (rows, labels), outcome.config.data.workers)
    return [dim(split.images.load(shown.row, SIDE), mask) for shown, mask in zip(objects, masks[0], strict=True)]


def dim(picture: NDArray[np.uint8], mask: Tensor) -> NDArray[np.uint8]:
    """The picture (S, S, 3), nearly black outside the mask (h, w)."""
    size = picture.shape[:2]
    inside = torch.nn.functional.interpolate(mask[None, None].float(), size=size, mode="nearest")[0, 0].numpy()
    return (picture * (DIMMED + (1 - DIMMED) * inside[..., None])).astype(np.uint8)


def choose_objects(objects: Sequence[ShownObject], count: int) -> list[ShownObject]:
    """Objects of different images and classes: first those with others around, then the smallest that a grid shows."""

    def rank(shown: ShownObject) -> tuple[bool, bool, float]:
        area = 1.0 if shown.area is None else shown.area
        return shown.others == 0, area < SMALL, area

    selection: list[ShownObject] = []
    for shown in sorted(objects, key=rank):
        is_new = all(shown.row != other.row and shown.label != other.label for other in selection)
        if is_new and (shown.area or 1) > SPECK:
            selection.append(shown)
        if len(selection) == count:
            break
    return selection


def fig_masks(request: ReproductionRequest) -> list[Path]:
    """Image, Scob, Scob without contrast."""
    lab = request.lab
    split = shown_split(lab)
    objects = choose_objects(objects_of(split), 6)
    runs = [lab.run(variants.SCOB), lab.run(variants.WITHOUT_CONTRAST)]
    columns = [pictures(o, split, objects, lab.processes.device) for o in runs]
    images = [split.images.load(shown.row, SIDE) for shown in objects]
    names = [split.labels.classes[shown.label] for shown in objects]
    rows = [list(line) for line in zip(images, *columns, strict=True)]
    figure = figures.picture_grid(rows, ["image", "Scob", "Scob without contrast"], names)
    return _write(request, "fig-masks", figure, split, objects, runs)


def by_class(objects: Sequence[ShownObject], classes: int, count: int) -> list[Trio]:
    """For the `count` most frequent classes: a large object, a small one, and one with many others around it.

    The third is from an image that no other class has used for this, if there is one.
    """
    groups: list[Trio] = []
    used_rows: set[int] = set()
    order = sorted(range(classes), key=lambda label: -sum(shown.label == label for shown in objects))
    for label in order:
        own = [shown for shown in objects if shown.label == label]
        if not own or len(groups) == count:
            break
        by_area = sorted((shown for shown in own if (shown.area or 0.0) > SPECK), key=lambda shown: shown.area or 0.0)
        large, small = (by_area[-1], by_area[0]) if by_area else (own[0], own[-1])
        rest = [shown for shown in own if shown.row not in (large.row, small.row)] or own
        crowded = max(rest, key=lambda shown: (shown.others > 0 and shown.row not in used_rows, shown.others))
        used_rows.add(crowded.row)
        groups.append((large, small, crowded))
    return groups


def fig_class_masks(request: ReproductionRequest) -> list[Path]:
    """Scob's masks by class: large, small and co-occurring objects."""
    lab = request.lab
    split = shown_split(lab)
    groups = by_class(objects_of(split), len(split.labels.classes), 8)
    run = lab.run(variants.SCOB)
    objects = [shown for group in groups for shown in group]
    masked = pictures(run, split, objects, lab.processes.device)
    pairs = [(split.images.load(shown.row, SIDE), mask) for shown, mask in zip(objects, masked, strict=True)]
    rows = [[picture for pair in pairs[start : start + 3] for picture in pair] for start in range(0, len(pairs), 3)]
    sizes = ("large", "small") if split.masks is not None else ("one", "another")
    titles = [sizes[0], "Scob", sizes[1], "Scob", "with others", "Scob"]
    names = [split.labels.classes[group[0].label] for group in groups]
    figure = figures.picture_grid(rows, titles, names)
    return _write(request, "fig-class-masks", figure, split, objects, [run])


def _write(
    request: ReproductionRequest,
    name: str,
    figure: object,
    split: Split,
    objects: Sequence[ShownObject],
    runs: Sequence[VariantRun],
) -> list[Path]:
    """The figure, and a report of the objects in it."""
    paper = paper_figure(name)
    rows: list[dict[str, Cell]] = [
        {
            "image": split.labels.images[shown.row],
            "class": split.labels.classes[shown.label],
            "area": None if shown.area is None else 100 * shown.area,
            "others": shown.others,
        }
        for shown in objects
    ]
    columns = (
        Column("image", f"Image of the split {split.name!r}"),
        Column("class", "Class"),
        Column("area", "Share of the image", 1, "%"),
        Column("others", "Other classes in the image"),
    )
    notes = (*paper.claim_notes, DARK)
    report = Report(name, paper.title, columns, tuple(rows), notes, request.lab.used(runs))
    return [*plots.save_figure(figure, request.out / name), *write_report(report, request.out)]  # type: ignore[arg-type]
