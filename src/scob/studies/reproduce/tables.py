"""The tables whose numbers are in the summary of a run: mAP, precision, recall and F1 on the reported split."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from scob import methods
from scob.errors import UserError
from scob.model.network import Projector
from scob.studies.reproduce import variants
from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.lab import TRUE_MASKS, Lab, ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import write_report
from scob.studies.reproduce.variants import Variant
from scob.training.model_folder import load_network

HEADS = "SMT for Scob and full labels; two convolutions, or a head of its own, for each other method"
RATES = ("OP", "OR", "OF1", "CP", "CR", "CF1")


def table_main(request: ReproductionRequest) -> list[Path]:
    """Every method with both kinds of labels on every data set."""
    names = request.methods or tuple(methods.comparable())
    paper = paper_table("table-main")
    titles = {name: methods.find(name).title for name in names}
    for name in names:
        if (row := paper.row(variants.paper_id(name))) is not None:
            titles[name] = row.names["method"]
    rows = variants.main_rows(names, titles)
    values: dict[str, dict[str, list[float]]] = {key: {} for key in rows}
    remarks: dict[str, str] = {}
    finished: dict[str, list[VariantRun]] = {}
    for lab in request.labs:
        lab.need_reported_split("table-main")
        for key, variant in rows.items():
            try:
                outcomes = lab.runs(variant)
            except UserError as error:  # one method that cannot be trained here does not spoil the table
                if key in variants.ROLE_SCOB_FULL:
                    raise
                remarks[key] = f"not run: {error}"
                continue
            values[key][lab.id] = [o.mAP for o in outcomes]
            finished.setdefault(lab.id, []).extend(outcomes)
    backbone = Path(request.lab.base.model.backbone).name
    measured: dict[str, MeasuredRow] = {}
    for key, variant in rows.items():
        printed = paper.row(key)
        backbones = f"{printed.names['backbone']}; ours {backbone}" if printed else f"ours {backbone}"
        names_of_row = {"method": variant.title, "backbone": backbones, "labels": variant.labels}
        measured[key] = MeasuredRow(values[key], names_of_row, remarks.get(key, ""))
    report = beside_paper(
        "table-main", paper, measured,
        gap=ClosedGap("role", columns=[lab.id for lab in request.labs]),
        titles={lab.id: lab.title for lab in request.labs}, used={**request.used(finished), "Heads": HEADS},
    )  # fmt: skip
    return list(write_report(report, request.out))


def table_metrics(request: ReproductionRequest) -> list[Path]:
    """OP to CF1 of ROLE, of Scob with one positive and with a tenth of the labels, and of full labels."""
    return _write_by_data(request, "table-metrics", variants.METRICS, ("mAP", *RATES), role="role")


def table_masks(request: ReproductionRequest) -> list[Path]:
    """Ground-truth masks and CAMs as guidance."""
    return _write_by_data(request, "table-masks", variants.MASKS, ("mAP", *RATES), role="baseline", second="guidance")


def table_ablation(request: ReproductionRequest) -> list[Path]:
    """Head, guidance and contrast in eight rows, and full labels; with the number of parameters."""
    lab = request.lab
    lab.need_reported_split("table-ablation")
    outcomes = {key: lab.runs(variant) for key, variant in variants.ABLATION.items()}
    measured = {
        key: MeasuredRow({"parameters": [parameters(o) for o in runs], "mAP": [o.mAP for o in runs]})
        for key, runs in outcomes.items()
    }
    measured["full"] = MeasuredRow(measured["full"].values, {"head": "Full labels", "contrast": "/", "sampling": "/"})
    return _write_table(request, "table-ablation", measured, outcomes, role="cnn")


def table_contrastive(request: ReproductionRequest) -> list[Path]:
    """Image-level contrast, other pre-training, and Scob."""
    lab = request.lab
    lab.need_reported_split("table-contrastive")
    outcomes = {key: lab.runs(v) for key, v in variants.contrastive_rows(request.backbone_files).items()}
    measured = {key: MeasuredRow({"mAP": [o.mAP for o in runs]}) for key, runs in outcomes.items()}
    measured["full"] = MeasuredRow(measured["full"].values, {"method": variants.FULL.title})
    for key in variants.PRETRAINED:
        measured.setdefault(key, MeasuredRow(remark="not run: no weights"))
    return _write_table(request, "table-contrastive", measured, outcomes, role="baseline")


def table_optimisation(request: ReproductionRequest) -> list[Path]:
    """EM, joint and two-stage optimisation."""
    lab = request.lab
    lab.need_reported_split("table-optimisation")
    outcomes = {key: lab.runs(variant) for key, variant in variants.OPTIMISATION.items()}
    measured = {key: MeasuredRow(_numbers(runs, ("mAP", *RATES))) for key, runs in outcomes.items()}
    measured["full"] = MeasuredRow(measured["full"].values, {"method": variants.FULL.title})
    return _write_table(request, "table-optimisation", measured, outcomes, role="baseline")


def parameters(outcome: VariantRun) -> float:
    """Millions of parameters: of the network that predicts and, with object contrast, of its mapping layers."""
    network, _ = load_network(outcome.run.model)
    count = sum(p.numel() for p in network.parameters())
    c = outcome.config
    if c.method == "scob" and c.scob.contrast in ("ipt", "random"):
        mapping = Projector(network.dimension, c.model.projection, c.model.projector)
        count += sum(p.numel() for p in mapping.parameters())
    return count / 1e6


def _write_table(
    request: ReproductionRequest,
    name: str,
    measured: Mapping[str, MeasuredRow],
    outcomes: Mapping[str, Sequence[VariantRun]],
    role: str,
) -> list[Path]:
    """Write a table about one data set."""
    used = request.lab.used([o for runs in outcomes.values() for o in runs])
    report = beside_paper(
        name, paper_table(name), measured, data=request.lab.title, gap=ClosedGap(role), used=used
    )  # fmt: skip
    return list(write_report(report, request.out))


def _write_by_data(
    request: ReproductionRequest,
    name: str,
    rows: Mapping[str, Variant],
    columns: Sequence[str],
    role: str,
    second: str = "method",
) -> list[Path]:
    """Write a table whose rows are grouped by data set."""
    measured: dict[str, MeasuredRow] = {}
    finished: dict[str, list[VariantRun]] = {}
    mask_counts: dict[str, str] = {}
    for lab in request.labs:
        lab.need_reported_split(name)
        for key, variant in rows.items():
            row = f"{lab.id}/{key}"
            names = {"data": lab.title, second: variant.title, "labels": variant.labels}
            names = {} if _in_paper(name, row) else {k: v for k, v in names.items() if k in paper_table(name).keys}
            if key == "gt-mask" and not _segmented(lab, variant):
                measured[row] = MeasuredRow(names=names, remark="not run: no segmentation")
                continue
            runs = lab.runs(variant)
            if key == "gt-mask":
                mask_counts[f"Ground-truth masks ({lab.title})"] = _true_masks(runs[0])
            measured[row] = MeasuredRow(_numbers(runs, columns), names)
            finished.setdefault(lab.id, []).extend(runs)
    report = beside_paper(
        name, paper_table(name), measured, gap=ClosedGap(role), titles={"mAP": "mAP"},
        used={**request.used(finished), **mask_counts},
    )  # fmt: skip
    return list(write_report(report, request.out))


def _numbers(outcomes: Sequence[VariantRun], columns: Sequence[str]) -> dict[str, list[float]]:
    return {column: [o.number(column) for o in outcomes] for column in columns}


def _in_paper(name: str, row: str) -> bool:
    return paper_table(name).row(row) is not None


def _segmented(lab: Lab, variant: Variant) -> bool:
    return lab.data(lab.config(variant)).train.masks is not None


def _true_masks(outcome: VariantRun) -> str:
    """How many training images had a segmentation of their observed label."""
    counts = json.loads((outcome.run.path / TRUE_MASKS).read_text(encoding="utf-8"))
    return f"{counts['with segmentation']} of {counts['images']} training images; the others used their CAM"
