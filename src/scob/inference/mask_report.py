"""What `scob evaluate --masks` reports: the measures of each set of pairs, and what each of them means."""

from dataclasses import asdict, dataclass
from typing import Any

from scob.algorithm.cam import MapSettings
from scob.inference.mask_measures import MaskMeasures
from scob.training.metrics import Detection, null_for_nan

DEFINITIONS = {
    "guidance": "masks of Eq. 3 by the trained network with the run's settings; precision, recall and F1 over all "
    "cells. The truth is the segmentation, max-pooled: a cell with any pixel of the class is foreground, and a cell "
    "with void pixels but none of the class is not counted",
    "masks": "explained masks at the resolution of the segmentation; IoU as a mean over (image, class) pairs and over "
    "the means of the classes, precision and recall over all pixels; void pixels are not counted; where there is no "
    "clear place, the mask is empty and its IoU 0",
    "pointing": "the centre of the map's highest cell is a pixel of the class, without the usual tolerance of 15 "
    "pixels; a peak on a void pixel is neither right nor wrong",
    "pointing_in_boxes": "the centre of the map's highest cell is in a box of the class, without tolerance",
    "boxes": "pairs with a single object of the class that is not difficult: the box of the explanation's largest part "
    "has an intersection over union of at least 0.5 with the object's; no clear place counts as wrong",
}


@dataclass(frozen=True)
class GuidanceRates:
    """The guidance masks of `pairs` segmented pairs at one stage, whose grid is (h, w)."""

    stage: int
    grid: tuple[int, int]
    pairs: int
    rates: Detection


@dataclass(frozen=True)
class Population:
    """The pairs of one split and their measures; `guidance` is empty if nothing is segmented.

    Of its images, `without_truth` have neither segmentation nor boxes. Not among them are those `skipped`, which are
    broken (or not in the run's label file), and those `trained_on`, if the labels are predicted. Of the named pairs,
    `not_there` name a class that the image does not show, `unknown` one of which its labels do not say, and
    `pairs_without_truth` one that is neither segmented nor boxed: they are in no measure.
    """

    data: str
    split: str
    predicted: bool
    images: int
    without_truth: int
    skipped: int
    trained_on: int
    not_there: int
    unknown: int
    pairs_without_truth: int
    guidance: tuple[GuidanceRates, ...]
    measures: MaskMeasures


@dataclass(frozen=True)
class MaskEvaluation:
    """What `scob evaluate --masks` reports. A set of pairs that cannot be measured is None, and `notes` say why."""

    model: str
    method: str
    weights: str
    size: int
    guidance_settings: MapSettings
    observed: Population | None
    predicted: Population | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, with what each measure means; an undefined rate is null."""
        tree: dict[str, Any] = null_for_nan(asdict(self))
        return {**tree, "definitions": DEFINITIONS}

    @property
    def populations(self) -> dict[str, Population]:
        """What was measured, by its name."""
        both = {"observed": self.observed, "predicted": self.predicted}
        return {name: population for name, population in both.items() if population is not None}

    def rows(self) -> dict[str, list[float | int | None]]:
        """The rows of the table: each measure's values, one per population; counts are whole numbers."""
        columns = [_measures(population) for population in self.populations.values()]
        names = dict.fromkeys(name for column in sorted(columns, key=len, reverse=True) for name in column)
        return {name: [column.get(name) for column in columns] for name in names}

    def remarks(self) -> list[str]:
        """What each column was measured on, and what was left out."""
        lines = []
        for name, p in self.populations.items():
            whose = "images that the model was not trained on" if p.predicted else "training images"
            unreadable = "broken" if p.predicted else "broken or not in the run's label file"
            lines.append(f"{name.capitalize()} labels: {whose}, {p.data}, split {p.split}")
            counts = {
                "images left out, with neither segmentation nor boxes": p.without_truth,
                f"images left out, {unreadable}": p.skipped,
                "images left out, trained on": p.trained_on,
                "pairs left out, neither segmented nor boxed": p.pairs_without_truth,
                "pairs left out, with an unknown label": p.unknown,
            }
            lines += [f"  {what}: {count:,}" for what, count in counts.items() if count]
        return [*lines, *self.notes]


def _measures(p: Population) -> dict[str, float | int | None]:
    """One column of the table."""
    column: dict[str, float | int | None] = {}
    for g in p.guidance:
        where = f"Guidance, {g.grid[0]} x {g.grid[1]} (stage {g.stage})"
        column |= {f"{where}: {rate}": getattr(g.rates, rate.lower()) for rate in ("precision", "recall", "F1")}
    m = p.measures
    if m.masks is not None:
        column |= {
            "Explained: mean IoU": m.masks.mean_iou,
            "Explained: mean IoU over classes": m.masks.mean_iou_over_classes,
            "Explained: precision": m.masks.precision,
            "Explained: recall": m.masks.recall,
        }
    shares = {
        "Pointing game: on the object": m.pointing,
        "Pointing game: in a box": m.pointing_in_boxes,
        "Boxes right, of single objects": m.boxes,
    }
    column |= {name: share.percent for name, share in shares.items() if share is not None}
    column["Images"] = p.images
    column["Pairs (image, class)"] = m.pairs
    column["  no clear place"] = m.no_clear_place
    if m.boxes is not None:
        column["  with a single object"] = m.boxes.pairs
    if p.predicted:
        column["Pairs named but not there"] = p.not_there
    return column
