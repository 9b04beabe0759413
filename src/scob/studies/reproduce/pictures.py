"""fig-masks and fig-class-masks: what the masks of Eq. 3 keep of an image."""

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
from scob.labels import PRESENT
from scob.studies.reproduce import figures, variants
from scob.studies.reproduce.cams import maps_of_rows
from scob.studies.reproduce.lab import Lab, Outcome, Work
from scob.studies.reproduce.paper import paper_figure
from scob.studies.reproduce.report import Cell, Column, Report, write_report

SIDE = 224  # of a picture in a figure, in pixels
DIMMED = 0.22  # how much is left of what a mask hides
SPECK, SMALL = 0.01, 0.03  # of the image: what no grid shows, and what a coarse one hardly does
DARK = "A picture that is dark all over had no cell above the threshold; in training such a mask hides nothing."
LOOKED_AT = 400  # images whose segmentation is read to find small and large objects


@dataclass(frozen=True)
class Seen:
    """An object to show: an image of the split, a class in it, its share of the pixels (None: not known), company."""

    row: int
    label: int
    area: float | None
    others: int


def objects_of(split: Split, seed: int = 0) -> list[Seen]:
    """Objects in some images of the split, in an order drawn by image id."""
    order = np.argsort(mix(split.labels.keys, seed_key(seed, "pictures")), kind="stable")[:LOOKED_AT]
    found = []
    for row in order:
        labels = np.flatnonzero(split.labels.values[row] == PRESENT)
        objects = split.masks.load(int(row)) if split.masks is not None else None
        for label in labels:
            shown = objects.present.get(int(label)) if objects is not None else None
            area = None if shown is None else float(shown.mean())
            found.append(Seen(int(row), int(label), area, len(labels) - 1))
    if not found:
        raise UserError(f"the split {split.name!r} has no known positive label: there is nothing to show")
    return found


def shown_split(lab: Lab) -> Split:
    """The reported split, or the training images where there is none."""
    data = lab.data(lab.config(variants.SCOB))
    return data.evaluate if data.evaluate is not None else data.train


def pictures(outcome: Outcome, split: Split, chosen: Sequence[Seen], device: torch.device) -> list[NDArray[np.uint8]]:
    """Each object's image with all but the object's mask dimmed, (SIDE, SIDE, 3)."""
    rows = np.array([seen.row for seen in chosen], dtype=np.int64)
    labels = np.array([seen.label for seen in chosen], dtype=np.int64)
    _, masks = maps_of_rows(outcome, split, rows, labels, device)
    return [dim(split.images.load(seen.row, SIDE), mask) for seen, mask in zip(chosen, masks[0], strict=True)]


def dim(picture: NDArray[np.uint8], mask: Tensor) -> NDArray[np.uint8]:
    """The picture (S, S, 3) where the mask (h, w) keeps it, nearly black elsewhere."""
    size = picture.shape[:2]
    kept = torch.nn.functional.interpolate(mask[None, None].float(), size=size, mode="nearest")[0, 0].numpy()
    return (picture * (DIMMED + (1 - DIMMED) * kept[..., None])).astype(np.uint8)


def choose_rows(found: Sequence[Seen], count: int) -> list[Seen]:
    """Objects in company, of as many classes as there are, the smaller first that a grid of cells still shows well."""

    def rank(seen: Seen) -> tuple[bool, bool, float]:
        area = 1.0 if seen.area is None else seen.area
        return seen.others == 0, area < SMALL, area

    ranked = sorted(found, key=rank)
    chosen: list[Seen] = []
    for seen in ranked:
        if all(seen.row != other.row and seen.label != other.label for other in chosen) and (seen.area or 1) > SPECK:
            chosen.append(seen)
        if len(chosen) == count:
            break
    return chosen


def fig_masks(work: Work) -> list[Path]:
    """Image, Scob, Scob without contrast."""
    lab = work.lab
    split = shown_split(lab)
    chosen = choose_rows(objects_of(split), 6)
    runs = [lab.run(variants.SCOB), lab.run(variants.WITHOUT_CONTRAST)]
    columns = [pictures(o, split, chosen, lab.processes.device) for o in runs]
    images = [split.images.load(seen.row, SIDE) for seen in chosen]
    names = [split.labels.classes[seen.label] for seen in chosen]
    rows = [list(line) for line in zip(images, *columns, strict=True)]
    figure = figures.picture_grid(rows, ["image", "Scob", "Scob without contrast"], names)
    return _write(work, "fig-masks", figure, split, chosen, runs)


def by_class(found: Sequence[Seen], classes: int, count: int) -> list[tuple[Seen, Seen, Seen]]:
    """For the classes seen most often: a large object, a small one, and one among the most others.

    For company an image is taken again only where there is no other.
    """
    groups: list[tuple[Seen, Seen, Seen]] = []
    shown: set[int] = set()
    order = sorted(range(classes), key=lambda label: -sum(seen.label == label for seen in found))
    for label in order:
        own = [seen for seen in found if seen.label == label]
        if not own or len(groups) == count:
            break
        measured = sorted((seen for seen in own if (seen.area or 0.0) > SPECK), key=lambda seen: seen.area or 0.0)
        large, small = (measured[-1], measured[0]) if measured else (own[0], own[-1])
        rest = [seen for seen in own if seen.row not in (large.row, small.row)] or own
        company = max(rest, key=lambda seen: (seen.others > 0 and seen.row not in shown, seen.others))
        shown.add(company.row)
        groups.append((large, small, company))
    return groups


def fig_class_masks(work: Work) -> list[Path]:
    """Scob's masks by class: large, small and co-occurring objects."""
    lab = work.lab
    split = shown_split(lab)
    groups = by_class(objects_of(split), len(split.labels.classes), 8)
    run = lab.run(variants.SCOB)
    chosen = [seen for group in groups for seen in group]
    masked = pictures(run, split, chosen, lab.processes.device)
    pairs = [(split.images.load(seen.row, SIDE), mask) for seen, mask in zip(chosen, masked, strict=True)]
    rows = [[picture for pair in pairs[start : start + 3] for picture in pair] for start in range(0, len(pairs), 3)]
    sizes = ("large", "small") if split.masks is not None else ("one", "another")
    titles = [sizes[0], "Scob", sizes[1], "Scob", "in company", "Scob"]
    names = [split.labels.classes[group[0].label] for group in groups]
    figure = figures.picture_grid(rows, titles, names)
    return _write(work, "fig-class-masks", figure, split, chosen, [run])


def _write(
    work: Work, name: str, figure: object, split: Split, chosen: Sequence[Seen], runs: Sequence[Outcome]
) -> list[Path]:
    """The figure, and beside it which objects it shows and what it rests on."""
    paper = paper_figure(name)
    rows: list[dict[str, Cell]] = [
        {
            "image": split.labels.images[seen.row],
            "class": split.labels.classes[seen.label],
            "area": None if seen.area is None else 100 * seen.area,
            "others": seen.others,
        }
        for seen in chosen
    ]
    columns = (
        Column("image", f"Image of the split {split.name!r}"),
        Column("class", "Class"),
        Column("area", "Share of the image", 1, "%"),
        Column("others", "Other classes there"),
    )
    notes = (*(f"The paper, of its own figure: {claim}" for claim in paper.claims), DARK)
    report = Report(name, paper.title, columns, tuple(rows), notes, work.lab.used(runs))
    return [*plots.save_figure(figure, work.out / name), *write_report(report, work.out)]  # type: ignore[arg-type]
