"""The tables whose numbers a run's summary already holds: mAP, precision, recall and F1 of the reported split."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from scob import methods
from scob.errors import UserError
from scob.model.network import Projector
from scob.studies.reproduce import variants
from scob.studies.reproduce.lab import TRUE_MASKS, Lab, Outcome, Work
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import Measured, Report, beside_paper, write_report
from scob.studies.reproduce.variants import Variant
from scob.training.model_folder import load_network

HEADS = "SMT for Scob and full labels; two convolutions, or a head of their own, for the others"
RATES = ("OP", "OR", "OF1", "CP", "CR", "CF1")


def table_main(work: Work) -> list[Path]:
    """Every method under both label settings on every data set."""
    names = work.methods or tuple(methods.names())
    paper = paper_table("table-main")
    titles = {name: methods.find(name).title for name in names}
    for name in names:
        if (row := paper.row(variants.paper_id(name))) is not None:
            titles[name] = row.names["method"]
    rows = variants.main_rows(names, titles)
    values: dict[str, dict[str, list[float]]] = {key: {} for key in rows}
    remarks: dict[str, str] = {}
    done: dict[str, list[Outcome]] = {}
    for lab in work.labs:
        lab.need_reported_split("table-main")
        for key, variant in rows.items():
            try:
                outcomes = lab.runs(variant)
            except UserError as error:  # one method of many that cannot be trained here does not cost the table
                if key in variants.ENDS:
                    raise
                remarks[key] = f"not run: {error}"
                continue
            values[key][lab.id] = [o.mAP for o in outcomes]
            done.setdefault(lab.id, []).extend(outcomes)
    backbone = Path(work.lab.base.model.backbone).name
    measured: dict[str, Measured] = {}
    for key, variant in rows.items():
        printed = paper.row(key)
        seen_by = f"{printed.names['backbone']}; ours {backbone}" if printed else f"ours {backbone}"
        own = {"method": variant.title, "backbone": seen_by, "labels": variant.labels}
        measured[key] = Measured(values[key], own, remarks.get(key, ""))
    report = beside_paper(
        "table-main", paper, measured, role="role", full="full",
        share_of=[lab.id for lab in work.labs], titles={lab.id: lab.title for lab in work.labs},
        used={**work.used(done), "Heads": HEADS},
    )  # fmt: skip
    return list(write_report(report, work.out))


def table_metrics(work: Work) -> list[Path]:
    """OP to CF1 of ROLE, Scob with one positive and with a tenth of the labels, and full labels."""
    return _by_data(work, "table-metrics", variants.METRICS, ("mAP", *RATES), role="role")


def table_masks(work: Work) -> list[Path]:
    """Ground-truth masks and CAMs as guidance."""
    return _by_data(work, "table-masks", variants.MASKS, ("mAP", *RATES), role="baseline", second="guidance")


def table_ablation(work: Work) -> list[Path]:
    """The eight rows of heads, guidance and contrast, with their parameters, and full labels."""
    lab = work.lab
    lab.need_reported_split("table-ablation")
    outcomes = {key: lab.runs(variant) for key, variant in variants.ABLATION.items()}
    measured = {
        key: Measured({"parameters": [parameters(o) for o in found], "mAP": [o.mAP for o in found]})
        for key, found in outcomes.items()
    }
    measured["full"] = Measured(measured["full"].values, {"head": "Full labels", "contrast": "/", "sampling": "/"})
    return _one(work, "table-ablation", measured, outcomes, role="cnn")


def table_contrastive(work: Work) -> list[Path]:
    """Contrast of whole images, other pre-training, and Scob."""
    lab = work.lab
    lab.need_reported_split("table-contrastive")
    outcomes = {key: lab.runs(v) for key, v in variants.contrastive_rows(work.backbone_files).items()}
    measured = {key: Measured({"mAP": [o.mAP for o in found]}) for key, found in outcomes.items()}
    measured["full"] = Measured(measured["full"].values, {"method": variants.FULL.title})
    for key in variants.PRETRAINED:
        measured.setdefault(key, Measured(remark="not run: no weights"))
    return _one(work, "table-contrastive", measured, outcomes, role="baseline")


def table_optimisation(work: Work) -> list[Path]:
    """EM, joint and two-stage optimisation."""
    lab = work.lab
    lab.need_reported_split("table-optimisation")
    outcomes = {key: lab.runs(variant) for key, variant in variants.OPTIMISATION.items()}
    measured = {key: Measured(_numbers(found, ("mAP", *RATES))) for key, found in outcomes.items()}
    measured["full"] = Measured(measured["full"].values, {"method": variants.FULL.title})
    return _one(work, "table-optimisation", measured, outcomes, role="baseline")


def parameters(outcome: Outcome) -> float:
    """Millions of parameters: the network that predicts and, with object contrast, its mapping layers."""
    network, _ = load_network(outcome.run.model)
    count = sum(p.numel() for p in network.parameters())
    c = outcome.config
    if c.method == "scob" and c.scob.contrast in ("ipt", "random"):
        mapping = Projector(network.dimension, c.model.projection, c.model.projector)
        count += sum(p.numel() for p in mapping.parameters())
    return count / 1e6


def _one(
    work: Work, name: str, measured: Mapping[str, Measured], outcomes: Mapping[str, Sequence[Outcome]], role: str
) -> list[Path]:
    """Write a table of one data set."""
    used = work.lab.used([o for found in outcomes.values() for o in found])
    report = beside_paper(
        name, paper_table(name), measured, data=work.lab.title, role=role, full="full", used=used
    )  # fmt: skip
    return list(write_report(report, work.out))


def _by_data(
    work: Work, name: str, rows: Mapping[str, Variant], columns: Sequence[str], role: str, second: str = "method"
) -> list[Path]:
    """Write a table whose rows are grouped by data set."""
    measured: dict[str, Measured] = {}
    done: dict[str, list[Outcome]] = {}
    extra: dict[str, str] = {}
    for lab in work.labs:
        lab.need_reported_split(name)
        for key, variant in rows.items():
            row = f"{lab.id}/{key}"
            names = {"data": lab.title, second: variant.title, "labels": variant.labels}
            names = {} if _in_paper(name, row) else {k: v for k, v in names.items() if k in paper_table(name).keys}
            if key == "gt-mask" and not _segmented(lab, variant):
                measured[row] = Measured(names=names, remark="not run: no segmentation")
                continue
            found = lab.runs(variant)
            if key == "gt-mask":
                extra[f"Ground-truth masks ({lab.title})"] = _true_masks(found[0])
            measured[row] = Measured(_numbers(found, columns), names)
            done.setdefault(lab.id, []).extend(found)
    report: Report = beside_paper(
        name, paper_table(name), measured, role=role, full="full", titles={"mAP": "mAP"},
        used={**work.used(done), **extra},
    )  # fmt: skip
    return list(write_report(report, work.out))


def _numbers(outcomes: Sequence[Outcome], columns: Sequence[str]) -> dict[str, list[float]]:
    return {column: [o.number(column) for o in outcomes] for column in columns}


def _in_paper(name: str, row: str) -> bool:
    return paper_table(name).row(row) is not None


def _segmented(lab: Lab, variant: Variant) -> bool:
    return lab.data(lab.config(variant)).train.masks is not None


def _true_masks(outcome: Outcome) -> str:
    """How many training images had segmentation of their observed label."""
    told = json.loads((outcome.run.path / TRUE_MASKS).read_text(encoding="utf-8"))
    return f"{told['with segmentation']} of {told['images']} training images; the others used their CAM"
