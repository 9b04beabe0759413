"""table-cams: the masks of Eq. 3 against segmentation, in feature space, over the training images of the runs."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.algorithm.cam import Maps
from scob.data.feed import Feed
from scob.data.split import ObjectMasks, Split
from scob.errors import UserError
from scob.inference.class_maps import MapSettings, class_maps
from scob.inference.scoring import feature_source
from scob.labels import PRESENT
from scob.model.heads import Grids, Keep
from scob.studies.reproduce import variants
from scob.studies.reproduce.lab import Outcome, Work
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import Measured, beside_paper, write_report
from scob.training.build import Data
from scob.training.metrics import Detection, mask_metrics
from scob.training.model_folder import load_network
from scob.training.scoring import row_batches


def maps_of_rows(
    outcome: Outcome, split: Split, rows: NDArray[np.int64], chosen: NDArray[np.int64], device: torch.device
) -> tuple[Maps, Keep]:
    """Activation maps and masks of one class for each of some images, at both stages, on the CPU.

    rows (N,) of the split, chosen (N,) class columns -> maps (N, h, w) in [0, 1] and masks (N, h, w), by the trained
    network under the run's own settings, on the clean view.
    """
    network, card = load_network(outcome.run.model, device)
    source = feature_source(network, card, device)
    s = outcome.config.scob
    settings = MapSettings(s.cam, s.cam_source, s.cam_window, s.gamma_cam)
    parts: list[tuple[Tensor, ...]] = []
    workers = outcome.config.data.workers
    with Feed(split, card.size, device, workers) as feed:
        places = list(row_batches(len(rows), 32))
        for place, images in zip(places, feed.iterate(rows[p] for p in places), strict=True):
            with torch.no_grad():
                features = network.backbone(source.views.normalise(images))
            pairs = torch.arange(len(place), device=device), torch.from_numpy(chosen[place]).to(device)
            found = class_maps(network, features, *pairs, settings)
            parts.append(tuple(part.cpu() for part in (*found.maps, *found.masks)))
    third, fourth, third_mask, fourth_mask = (torch.cat(stage) for stage in zip(*parts, strict=True))
    return (third, fourth), (third_mask, fourth_mask)


def observed_class(data: Data) -> NDArray[np.int64]:
    """The observed label of each training image, (N,); the first of several, -1 for none."""
    present = data.observed.values == PRESENT
    return np.where(present.any(axis=1), present.argmax(axis=1), -1)


def true_cells(objects: ObjectMasks, label: int, grid: tuple[int, int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Segmentation of one class brought to a grid by max pooling, and the cells it leaves open.

    A cell that shows a pixel of the class is foreground; one that shows none but a void pixel is not counted.
    """
    both = torch.from_numpy(np.stack([objects.present[label], objects.void])).float()
    truth, void = (torch.nn.functional.adaptive_max_pool2d(both[None], grid)[0] > 0).numpy()
    return truth, void & ~truth


@dataclass(frozen=True)
class Segmented:
    """Training images with segmentation of their observed label: (N,) rows, (N,) labels, (N, h, w) cells a stage."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    truth: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    void: tuple[NDArray[np.bool_], NDArray[np.bool_]]


def segmented(data: Data, grids: Grids) -> Segmented:
    """The segmentation of the observed labels at both grids; an image that has none is not among them."""
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
        raise UserError("no training image has segmentation of its observed label: there is nothing to compare with")
    kept = np.asarray(rows, dtype=np.int64)
    truth, void = ([np.stack([pair[part] for pair in stage]) for stage in cells] for part in (0, 1))
    return Segmented(kept, labels[kept], (truth[0], truth[1]), (void[0], void[1]))


def measure(outcome: Outcome, data: Data, found: Segmented, device: torch.device) -> list[Detection]:
    """Precision, recall and F1 at both stages."""
    _, masks = maps_of_rows(outcome, data.train, found.rows, found.labels, device)
    return [mask_metrics(m, t, v) for m, t, v in zip(masks, found.truth, found.void, strict=True)]


def table_cams(work: Work) -> list[Path]:
    """Scob without and with contrast, ROLE and full labels: the masks of the observed labels."""
    lab = work.lab
    config = lab.config(variants.SCOB)
    # The same images and labels for every row: those of the single-positive draw, also under full labels.
    data = lab.data(config)
    if data.train.masks is None:
        raise UserError(f"table-cams needs segmentation masks, and {config.data.source} has none")
    outcomes = {key: lab.runs(variant) for key, variant in variants.CAMS.items()}
    _, card = load_network(outcomes["scob"][0].run.model)
    found = segmented(data, card.grids)
    measured: dict[str, Measured] = {}
    for key, runs in outcomes.items():
        stages = [measure(o, data, found, lab.processes.device) for o in runs]
        values: dict[str, list[float]] = {}
        for number in (0, 1):
            for rate in ("precision", "recall", "f1"):
                values[rate if number == 0 else f"{rate} stage 4"] = [getattr(s[number], rate) for s in stages]
        if lab.reports:
            values["mAP"] = [o.mAP for o in runs]
        in_paper = paper_table("table-cams").row(key) is not None
        measured[key] = Measured(values, {} if in_paper else {"method": variants.CAMS[key].title})
    fine, coarse = (f"{h} x {w}" for h, w in card.grids)
    titles = {f"{rate} stage 4": f"{name} at {coarse}" for rate, name in
              (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1"))} | {"mAP": "mAP"}  # fmt: skip
    used = lab.used([o for runs in outcomes.values() for o in runs])
    used["Masks"] = (
        f"{len(found.rows)} of {len(data.train)} training images have segmentation of their observed label, the others "
        f"are left out; ours at {fine} cells where no grid is named; void cells not counted"
    )
    report = beside_paper(
        "table-cams", paper_table("table-cams"), measured, data=lab.title, role="role", full="full",
        share_of=("f1", "mAP"), used=used, titles=titles,
    )  # fmt: skip
    return list(write_report(replace(report, notes=(*report.notes, *_cautions())), work.out))


def _cautions() -> tuple[str, ...]:
    return ("ROLE's head reads stage 4 alone: at the finer grid its map is stage 4's, enlarged.",)
