"""table-cams: the masks of Eq. 3 compared with segmentation, in feature space, on the training images."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.algorithm.cam import Maps
from scob.data.feed import Feed, FeedOptions
from scob.data.split import ObjectMasks, Split
from scob.errors import UserError
from scob.inference.class_maps import MapSettings, class_maps
from scob.labels import PRESENT
from scob.model.heads import Grids, Keep
from scob.studies.reproduce import variants
from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.lab import ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import write_report
from scob.training.metrics import Detection, mask_metrics
from scob.training.model_folder import load_network
from scob.training.run_data import Data
from scob.training.scoring import model_source, row_batches


def maps_of_rows(
    outcome: VariantRun, split: Split, rows: NDArray[np.int64], classes: NDArray[np.int64], device: torch.device
) -> tuple[Maps, Keep]:
    """Activation maps and masks of one class per image, at both stages, on the CPU.

    rows (N,) of the split, classes (N,) -> maps (N, h, w) in [0, 1] and masks (N, h, w), of the trained network with
    the run's own settings, on the clean view.
    """
    network, card = load_network(outcome.run.model, device)
    source = model_source(network, card, device)
    s = outcome.config.scob
    settings = MapSettings(s.cam, s.cam_source, s.cam_window, s.gamma_cam)
    parts: list[tuple[Tensor, ...]] = []
    workers = outcome.config.data.workers
    with Feed(split, card.size, device, FeedOptions(workers)) as feed:
        batches = list(row_batches(len(rows), 32))
        for batch, images in zip(batches, feed.iterate(rows[b] for b in batches), strict=True):
            with torch.no_grad():
                features = network.backbone(source.views.normalise(images))
            pairs = torch.arange(len(batch), device=device), torch.from_numpy(classes[batch]).to(device)
            maps = class_maps(network, features, *pairs, settings)
            parts.append(tuple(part.cpu() for part in (*maps.maps, *maps.masks)))
    third, fourth, third_mask, fourth_mask = (torch.cat(stage) for stage in zip(*parts, strict=True))
    return (third, fourth), (third_mask, fourth_mask)


def observed_class(data: Data) -> NDArray[np.int64]:
    """The observed label of each training image, (N,): the first if there are several, -1 if there is none."""
    present = data.observed.values == PRESENT
    return np.where(present.any(axis=1), present.argmax(axis=1), -1)


def true_cells(objects: ObjectMasks, label: int, grid: tuple[int, int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The segmentation of one class, max-pooled to a grid, and the cells that are not counted.

    A cell with a pixel of the class is foreground; a cell with void pixels but none of the class is not counted.
    """
    both = torch.from_numpy(np.stack([objects.present[label], objects.void])).float()
    truth, void = (torch.nn.functional.adaptive_max_pool2d(both[None], grid)[0] > 0).numpy()
    return truth, void & ~truth


@dataclass(frozen=True)
class SegmentedImages:
    """Training images whose observed label is segmented: (N,) rows, (N,) labels, (N, h, w) cells per stage."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    truth: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    void: tuple[NDArray[np.bool_], NDArray[np.bool_]]


def segmented_images(data: Data, grids: Grids) -> SegmentedImages:
    """The segmentation of the observed labels at both grids; images without one are left out."""
    assert data.train.masks is not None
    labels = observed_class(data)
    rows: list[int] = []
    cells: list[list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]] = [[], []]
    for row in np.flatnonzero(labels >= 0):
        objects = data.train.masks.load(int(row))
        if objects is None or int(labels[row]) not in objects.present:
            continue
        rows.append(int(row))
        for stage, grid in zip(cells, grids, strict=True):
            stage.append(true_cells(objects, int(labels[row]), grid))
    if not rows:
        raise UserError(
            "table-cams needs segmentation, and no training image has a mask for its observed label: use other data"
        )
    indices = np.asarray(rows, dtype=np.int64)
    truth, void = ([np.stack([pair[part] for pair in stage]) for stage in cells] for part in (0, 1))
    return SegmentedImages(indices, labels[indices], (truth[0], truth[1]), (void[0], void[1]))


def measure(outcome: VariantRun, data: Data, images: SegmentedImages, device: torch.device) -> list[Detection]:
    """Precision, recall and F1 at both stages."""
    _, masks = maps_of_rows(outcome, data.train, images.rows, images.labels, device)
    return [mask_metrics(m, t, v) for m, t, v in zip(masks, images.truth, images.void, strict=True)]


def table_cams(request: ReproductionRequest) -> list[Path]:
    """The masks of the observed labels: Scob without and with contrast, ROLE, full labels."""
    lab = request.lab
    config = lab.config(variants.SCOB)
    # Every row is measured on the same images and labels: those of the single-positive draw.
    data = lab.data(config)
    if data.train.masks is None:
        raise UserError(f"table-cams needs segmentation masks, but {config.data.source} has none")
    outcomes = {key: lab.runs(variant) for key, variant in variants.CAMS.items()}
    _, card = load_network(outcomes["scob"][0].run.model)
    images = segmented_images(data, card.grids)
    measured: dict[str, MeasuredRow] = {}
    for key, runs in outcomes.items():
        stages = [measure(o, data, images, lab.processes.device) for o in runs]
        values: dict[str, list[float]] = {}
        for number in (0, 1):
            for rate in ("precision", "recall", "f1"):
                values[rate if number == 0 else f"{rate} stage 4"] = [getattr(s[number], rate) for s in stages]
        if lab.reports:
            values["mAP"] = [o.mAP for o in runs]
        in_paper = paper_table("table-cams").row(key) is not None
        measured[key] = MeasuredRow(values, {} if in_paper else {"method": variants.CAMS[key].title})
    fine, coarse = (f"{h} x {w}" for h, w in card.grids)
    titles = {f"{rate} stage 4": f"{name} at {coarse}" for rate, name in
              (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1"))} | {"mAP": "mAP"}  # fmt: skip
    used = lab.used([o for runs in outcomes.values() for o in runs])
    used["Masks"] = (
        f"{len(images.rows)} of {len(data.train)} training images have a segmentation of their observed label; the "
        f"others are left out. Ours are at {fine} cells unless another grid is named. Void cells are not counted."
    )
    report = beside_paper(
        "table-cams", paper_table("table-cams"), measured, data=lab.title, used=used, titles=titles,
        gap=ClosedGap("role", columns=("f1", "mAP")),
    )  # fmt: skip
    return list(write_report(replace(report, notes=(*report.notes, *_cautions())), request.out))


def _cautions() -> tuple[str, ...]:
    return ("ROLE's head reads only stage 4: at the finer grid, its map is that of stage 4, enlarged.",)
