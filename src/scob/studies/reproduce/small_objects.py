"""table-small-objects: AP of ten small classes.

On COCO they are the paper's ten; elsewhere the ten with the smallest median mask area.
"""

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np

from scob.data.split import Split
from scob.errors import UserError
from scob.studies.reproduce import variants
from scob.studies.reproduce.beside_paper import MeasuredRow, beside_paper
from scob.studies.reproduce.lab import ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import (
    SHARE_TITLE,
    Cell,
    Column,
    SeedSpread,
    closed_share,
    write_report,
)

TEN = 10
TITLES = {"role": "AP, ROLE", "full": "AP, full labels", "area": "Median share of the image (%)"}


def median_areas(split: Split) -> dict[str, float]:
    """The median share of the image, in percent, that each class with a segmentation in the split covers."""
    if split.masks is None:
        raise UserError(f"table-small-objects needs segmentation masks, but the split {split.name!r} has none")
    areas_of: dict[int, list[float]] = {}
    for row in range(len(split)):
        objects = split.masks.load(row)
        for label, mask in (objects.present if objects is not None else {}).items():
            areas_of.setdefault(label, []).append(100 * float(np.mean(mask)))
    return {split.labels.classes[label]: statistics.median(areas) for label, areas in areas_of.items()}


def table_small_objects(request: ReproductionRequest) -> list[Path]:
    """AP of the small classes: Scob, ROLE and full labels."""
    lab = request.lab
    lab.need_reported_split("table-small-objects")
    paper = paper_table("table-small-objects")
    outcomes = {key: lab.runs(variant) for key, variant in variants.ROLE_SCOB_FULL.items()}
    areas: dict[str, float] = {}
    if lab.id == "coco2014":
        names = [row.id for row in paper.rows]
    else:
        split = lab.data(lab.config(variants.SCOB)).evaluate
        assert split is not None
        areas = median_areas(split)
        names = sorted(areas, key=lambda name: (areas[name], name))[:TEN]
    measured = {}
    for name in names:
        values = {"AP" if key == "scob" else key: [_ap(o, name) for o in runs] for key, runs in outcomes.items()}
        if areas:
            values["area"] = [areas[name]]
        measured[name] = MeasuredRow(values, {"class": name})
    used = lab.used([o for runs in outcomes.values() for o in runs])
    used["Classes"] = (
        "the paper's ten" if not areas else f"the {len(names)} smallest of {len(areas)} by median mask area"
    )
    report = beside_paper(
        "table-small-objects", paper, measured, data=lab.title, used=used, titles=TITLES
    )  # fmt: skip
    rows: list[dict[str, Cell]] = []
    for row in report.rows:
        ends = [cell.mean if isinstance(cell := row.get(key), SeedSpread) else None for key in ("AP", "role", "full")]
        rows.append({**row, "share": closed_share(*ends)})
    columns = (*report.columns, Column("share", SHARE_TITLE, 0, "%"))
    return list(write_report(replace(report, rows=tuple(rows), columns=columns), request.out))


def _ap(outcome: VariantRun, name: str) -> float:
    value = outcome.summary["evaluation"]["per_class"].get(name)
    return float("nan") if value is None else float(value)
