"""table-cams: the masks of Eq. 3 compared with segmentation, in feature space, on the training images."""

from dataclasses import replace
from pathlib import Path

import torch

from scob.data.split import Split
from scob.errors import UserError
from scob.inference.guidance_masks import (
    SegmentedPairs,
    guidance_rates,
    guidance_settings,
    observed_pairs,
    segmented_pairs,
)
from scob.inference.model import Scob
from scob.studies.reproduce import variants
from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.lab import ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import write_report
from scob.training.metrics import Detection
from scob.training.model_folder import load_network

PAPER_SIZE = 448  # pixels
RATES = {"precision": "Precision", "recall": "Recall", "f1": "F1"}


def model_of(outcome: VariantRun, device: torch.device) -> Scob:
    """The model of a finished run."""
    network, card = load_network(outcome.run.model, device)
    return Scob(network, card, device)


def measure(outcome: VariantRun, split: Split, pairs: SegmentedPairs, device: torch.device) -> tuple[Detection, ...]:
    """Precision, recall and F1 at stages 3 and 4."""
    settings, workers = guidance_settings(outcome.config), outcome.config.data.workers
    return guidance_rates(model_of(outcome, device), settings, split, pairs, workers)


def table_cams(request: ReproductionRequest) -> list[Path]:
    """The masks of the observed labels: Scob without and with contrast, ROLE, full labels."""
    lab = request.lab
    config = lab.config(variants.SCOB)
    # Every row is measured on the same images and labels: those of the single-positive draw.
    data = lab.data(config)
    if data.train.masks is None:
        raise UserError(f"table-cams needs segmentation masks, but {config.data.source} has none")
    observed = observed_pairs(data.observed)
    if not len(segmented_pairs(data.train.masks, observed, ((1, 1), (1, 1)))):  # known before anything is trained
        raise UserError(
            "table-cams needs segmentation, and no training image has a mask for its observed label: use other data"
        )
    outcomes = {key: lab.runs(variant) for key, variant in variants.CAMS.items()}
    card = model_of(outcomes["scob"][0], torch.device("cpu")).card
    pairs = segmented_pairs(data.train.masks, observed, card.grids)
    measured: dict[str, MeasuredRow] = {}
    for key, runs in outcomes.items():
        stages = [measure(o, data.train, pairs, lab.processes.device) for o in runs]
        values: dict[str, list[float]] = {}
        for stage, suffix in ((1, ""), (0, " stage 3")):
            values |= {rate + suffix: [getattr(s[stage], rate) for s in stages] for rate in RATES}
        if lab.reports:
            values["mAP"] = [o.mAP for o in runs]
        in_paper = paper_table("table-cams").row(key) is not None
        measured[key] = MeasuredRow(values, {} if in_paper else {"method": variants.CAMS[key].title})
    fine, coarse = (f"{h} x {w}" for h, w in card.grids)
    titles = {rate: f"{title} at {coarse}" for rate, title in RATES.items()}
    titles |= {f"{rate} stage 3": f"{title} at {fine}" for rate, title in RATES.items()} | {"mAP": "mAP"}
    used = lab.used([o for runs in outcomes.values() for o in runs])
    used["Masks"] = (
        f"{pairs.images} of {len(data.train)} training images have a segmentation of their observed label; the others "
        f"are left out. Stage 4 has {coarse} cells, stage 3 has {fine}. The segmentation is max-pooled to each grid: a "
        "cell with any pixel of the class is foreground. Cells with void pixels and none of the class are not counted."
    )
    report = beside_paper(
        "table-cams", paper_table("table-cams"), measured, data=lab.title, used=used, titles=titles,
        gap=ClosedGap("role", columns=("f1", "mAP")),
    )  # fmt: skip
    return list(write_report(replace(report, notes=(*report.notes, *_cautions(config.data.size))), request.out))


def _cautions(size: int) -> tuple[str, ...]:
    """What a reader must know before comparing the numbers."""
    enlarged = "ROLE's head reads only stage 4: at the finer grid, its map is that of stage 4, enlarged."
    if size == PAPER_SIZE:
        return (enlarged,)
    other = (
        f"The paper's images have {PAPER_SIZE} pixels, where stage 4 has 14 x 14 cells and stage 3 has 28 x 28. Ours "
        f"have {size}, so each stage has another grid than in the paper: compare with care."
    )
    return enlarged, other
