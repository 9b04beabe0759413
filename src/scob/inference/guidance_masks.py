"""Guidance masks (Eq. 3) of a trained network, and the segmentation at the grids they are compared on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.algorithm.cam import Maps, MapSettings
from scob.config import Config
from scob.data.feed import Feed, FeedOptions
from scob.data.split import Masks, ObjectMasks, Split
from scob.inference.class_maps import class_maps
from scob.inference.model import Scob
from scob.labels import PRESENT, Labels
from scob.model.heads import Grids, Keep
from scob.training.metrics import Detection, mask_metrics
from scob.training.scoring import model_source, row_batches

BATCH = 32  # images per batch
Rows = NDArray[np.int64]
Cells = NDArray[np.bool_]


def guidance_settings(config: Config) -> MapSettings:
    """How a run's training computes its guidance masks."""
    return MapSettings.of(config.scob)


def observed_pairs(observed: Labels) -> tuple[Rows, Rows]:
    """Every observed (image, class) pair: rows (P,) and classes (P,), image by image."""
    rows, classes = np.nonzero(observed.values == PRESENT)
    return rows.astype(np.int64), classes.astype(np.int64)


def maps_of_pairs(
    model: Scob,
    settings: MapSettings,
    split: Split,
    pairs: tuple[Rows, Rows],
    workers: int = 0,
    progress: Callable[[int], None] | None = None,
) -> tuple[Maps, Keep]:
    """Activation maps and masks of (image, class) pairs, at both stages, on the CPU.

    rows (P,) of the split and classes (P,) -> maps (P, h, w) in [0, 1] and masks (P, h, w), of the clean view. Each
    image is decoded once and passes the backbone once.
    """
    images, image_of_pair = np.unique(pairs[0], return_inverse=True)
    source = model_source(model.network, model.card, model.device)
    parts: list[tuple[Tensor, ...]] = []
    order: list[Rows] = []
    with Feed(split, model.size, model.device, FeedOptions(workers)) as feed:
        batches = list(row_batches(len(images), BATCH))
        for batch, pixels in zip(batches, feed.iterate(images[b] for b in batches), strict=True):
            with torch.no_grad():
                features = model.network.backbone(source.views.normalise(pixels))
            numbers = np.flatnonzero((image_of_pair >= batch[0]) & (image_of_pair <= batch[-1]))
            rows = torch.from_numpy(image_of_pair[numbers] - batch[0]).to(model.device)
            classes = torch.from_numpy(pairs[1][numbers]).to(model.device)
            maps = class_maps(model.network, features, rows, classes, settings)
            parts.append(tuple(part.cpu() for part in (*maps.maps, *maps.masks)))
            order.append(numbers)
            if progress is not None:
                progress(len(batch))
    back = torch.from_numpy(np.argsort(np.concatenate(order)))
    third, fourth, third_mask, fourth_mask = (torch.cat(stage)[back] for stage in zip(*parts, strict=True))
    return (third, fourth), (third_mask, fourth_mask)


def true_cells(objects: ObjectMasks, label: int, grid: tuple[int, int]) -> tuple[Cells, Cells]:
    """The segmentation of one class, max-pooled to a grid, and the cells that are not counted.

    A cell with a pixel of the class is foreground; a cell with void pixels but none of the class is not counted.
    """
    both = torch.from_numpy(np.stack([objects.present[label], objects.void])).float()
    truth, void = (torch.nn.functional.adaptive_max_pool2d(both[None], grid)[0] > 0).numpy()
    return truth, void & ~truth


@dataclass(frozen=True)
class SegmentedPairs:
    """Pairs whose class is segmented: (P,) rows, (P,) labels, and (P, h, w) cells at the grids of stages 3 and 4."""

    rows: Rows
    labels: Rows
    truth: tuple[Cells, Cells]
    void: tuple[Cells, Cells]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def images(self) -> int:
        """How many images the pairs belong to."""
        return len(np.unique(self.rows))


def segmented_pairs(masks: Masks, pairs: tuple[Rows, Rows], grids: Grids) -> SegmentedPairs:
    """The segmentation of each pair's class at both grids; pairs without one are left out."""
    kept: list[tuple[int, int]] = []
    truth: tuple[list[Cells], list[Cells]] = ([], [])
    void: tuple[list[Cells], list[Cells]] = ([], [])
    loaded: tuple[int, ObjectMasks | None] | None = None
    for row, label in zip(pairs[0].tolist(), pairs[1].tolist(), strict=True):
        if loaded is None or loaded[0] != row:
            loaded = row, masks.load(row)
        objects = loaded[1]
        if objects is None or objects.of(label) is None:
            continue
        kept.append((row, label))
        for stage, grid in enumerate(grids):
            shown, unknown = true_cells(objects, label, grid)
            truth[stage].append(shown)
            void[stage].append(unknown)
    rows, labels = np.asarray(kept, dtype=np.int64).reshape(-1, 2).T
    (third, fourth), (third_void, fourth_void) = (
        [np.stack(cells) if cells else np.zeros((0, *grid), bool) for cells, grid in zip(stages, grids, strict=True)]
        for stages in (truth, void)
    )
    return SegmentedPairs(rows, labels, (third, fourth), (third_void, fourth_void))


def guidance_rates(
    model: Scob,
    settings: MapSettings,
    split: Split,
    pairs: SegmentedPairs,
    workers: int = 0,
    progress: Callable[[int], None] | None = None,
) -> tuple[Detection, Detection]:
    """Precision, recall and F1 of the guidance masks of segmented pairs, over all cells, at stages 3 and 4."""
    _, masks = maps_of_pairs(model, settings, split, (pairs.rows, pairs.labels), workers, progress)
    third, fourth = (mask_metrics(m, t, v) for m, t, v in zip(masks, pairs.truth, pairs.void, strict=True))
    return third, fourth
