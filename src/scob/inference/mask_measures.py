"""How well a mask, the peak of a map and a box lie on an object. Pure functions; every rate is in percent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scob.data.split import ObjectBox, ObjectMasks
from scob.inference.explain import Explanation
from scob.inference.regions import Box
from scob.training.metrics import detection_of

MATCH = 0.5  # the intersection over union from which a box counts as right


@dataclass(frozen=True)
class MeasuredPair:
    """One explained (image, class) pair compared with the truth; None is what the data does not say.

    `pixels` counts the mask's true positives, false positives and false negatives, void pixels left out. `peak_on_mask`
    and `peak_in_box` say where the map's peak is. `box_iou` is given if the image has a single object of the class.
    """

    label: int
    clear: bool
    pixels: tuple[int, int, int] | None = None
    peak_on_mask: bool | None = None
    peak_in_box: bool | None = None
    box_iou: float | None = None

    @property
    def iou(self) -> float | None:
        """Intersection over union of the mask and the object."""
        return None if self.pixels is None else self.pixels[0] / sum(self.pixels)


@dataclass(frozen=True)
class Share:
    """How many of some pairs are right."""

    percent: float
    right: int
    pairs: int


@dataclass(frozen=True)
class MaskOverlap:
    """Explained masks against segmentation: IoU as a mean over pairs, and over the means of the classes.

    Precision and recall are over the pixels of all pairs together.
    """

    mean_iou: float
    mean_iou_over_classes: float
    per_class: dict[str, float]
    precision: float
    recall: float
    pairs: int


@dataclass(frozen=True)
class MaskMeasures:
    """The measures of a set of pairs; None is what their data cannot say.

    `pointing` asks if the map's peak is a pixel of the class, `pointing_in_boxes` if it is in a box of the class.
    `boxes` are pairs with a single object, and right if the box of the largest part has an IoU of at least 0.5 with
    the object's.
    """

    pairs: int
    no_clear_place: int
    masks: MaskOverlap | None
    pointing: Share | None
    pointing_in_boxes: Share | None
    boxes: Share | None


def overlap(mask: NDArray[np.bool_], truth: NDArray[np.bool_], void: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Pixels in both, in the mask only, and in the truth only, of three (H, W) masks; void pixels are not counted."""
    known = ~void
    return (
        int((mask & truth & known).sum()),
        int((mask & ~truth & known).sum()),
        int((~mask & truth & known).sum()),
    )


def box_iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, x0, y0, x1, y1."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = max(0.0, width) * max(0.0, height)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return both / (areas - both) if areas > both else 0.0


def peak_of(heat: NDArray[np.float32]) -> tuple[float, float] | None:
    """x, y of the centre of a map's highest cell, in fractions of the image; None for a map of zeros.

    Of equal cells the first counts, row by row.
    """
    if not heat.max() > 0:
        return None
    row, column = divmod(int(heat.argmax()), heat.shape[1])
    return (column + 0.5) / heat.shape[1], (row + 0.5) / heat.shape[0]


def single_object(boxes: Sequence[ObjectBox], label: int) -> Box | None:
    """The box of the only object of a class; None if there are several, or if it is difficult."""
    own = [box for box in boxes if box.label == label]
    return own[0].corners if len(own) == 1 and not own[0].difficult else None


def measure_pair(
    explanation: Explanation, label: int, objects: ObjectMasks | None, boxes: Sequence[ObjectBox] | None
) -> MeasuredPair:
    """Compare an explanation with the segmentation and the boxes of its image.

    A peak on a void pixel is neither right nor wrong. A map of zeros has no peak, which is wrong.
    """
    assert explanation.heat is not None
    peak = peak_of(explanation.heat)
    pixels, on_mask, in_box, iou = None, None, None, None
    truth = None if objects is None else objects.of(label)
    if truth is not None and objects is not None:
        height, width = truth.shape
        pixels = overlap(explanation.mask(height, width), truth, objects.void)
        on_mask = False
        if peak is not None:
            pixel = int(peak[1] * height), int(peak[0] * width)
            on_mask = None if objects.void[pixel] else bool(truth[pixel])
    own = [box.corners for box in boxes or () if box.label == label]
    if own:
        in_box = peak is not None and any(x0 <= peak[0] < x1 and y0 <= peak[1] < y1 for x0, y0, x1, y1 in own)
        single = single_object(boxes or (), label)
        if single is not None:
            iou = box_iou(explanation.boxes[0], single) if explanation.boxes else 0.0
    return MeasuredPair(label, bool(explanation.boxes), pixels, on_mask, in_box, iou)


def share(answers: Sequence[bool]) -> Share | None:
    """The share of right answers; None if there are none."""
    return Share(100 * sum(answers) / len(answers), sum(answers), len(answers)) if answers else None


def summarise(pairs: Sequence[MeasuredPair], classes: Sequence[str]) -> MaskMeasures:
    """The measures of some pairs."""
    return MaskMeasures(
        pairs=len(pairs),
        no_clear_place=sum(not pair.clear for pair in pairs),
        masks=mask_overlap(pairs, classes),
        pointing=share([pair.peak_on_mask for pair in pairs if pair.peak_on_mask is not None]),
        pointing_in_boxes=share([pair.peak_in_box for pair in pairs if pair.peak_in_box is not None]),
        boxes=share([pair.box_iou >= MATCH for pair in pairs if pair.box_iou is not None]),
    )


def mask_overlap(pairs: Sequence[MeasuredPair], classes: Sequence[str]) -> MaskOverlap | None:
    """Mean IoU, precision and recall of the masks of some pairs; None if none of them is segmented."""
    counts = [pair.pixels for pair in pairs if pair.pixels is not None]
    if not counts:
        return None
    per_class: dict[str, list[float]] = {}
    for pair in pairs:
        if pair.iou is not None:
            per_class.setdefault(classes[pair.label], []).append(100 * pair.iou)
    means = {name: math.fsum(per_class[name]) / len(per_class[name]) for name in classes if name in per_class}
    rates = detection_of(*(sum(column) for column in zip(*counts, strict=True)))
    values = [value for own in per_class.values() for value in own]
    return MaskOverlap(
        mean_iou=math.fsum(values) / len(values),
        mean_iou_over_classes=math.fsum(means.values()) / len(means),
        per_class=means,
        precision=rates.precision,
        recall=rates.recall,
        pairs=len(values),
    )
