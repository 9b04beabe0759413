"""table-speed: time per image of each method's trained network, one image at a time, all measured in one run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from scob import methods
from scob.model.network import Network
from scob.studies.reproduce import variants
from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.lab import ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import Column, PaperNumber, Report, write_report
from scob.studies.reproduce.variants import Variant
from scob.studies.timing import medians_in_turns
from scob.training.model_folder import load_network


def rows() -> dict[str, Variant]:
    """The paper's four rows, as far as we have their methods, and full labels."""
    known = methods.names()
    structured: dict[str, Variant] = {}
    for name in ("sst", "sarb"):
        if name in known:
            structured[name] = variants.partial(variants.baseline(name, methods.find(name).title))
    return {"role": variants.ROLE, **structured, "scob": variants.SCOB, "full": variants.FULL}


def table_speed(request: ReproductionRequest) -> list[Path]:
    """Baseline, SST, SARB and Scob: milliseconds, ratio to the baseline, mAP."""
    lab = request.lab
    device = lab.processes.device
    outcomes: dict[str, list[VariantRun]] = {key: lab.runs(variant) for key, variant in rows().items()}
    networks = {key: load_network(runs[0].run.model, device)[0] for key, runs in outcomes.items() if key != "full"}
    size = lab.base.data.size
    image = torch.rand(1, 3, size, size, device=device)
    bare = networks["role"].backbone

    def forward(network: Network) -> Callable[[], object]:
        return lambda: network(image)

    with torch.inference_mode():
        seconds = medians_in_turns(
            {"bare": lambda: bare(image), **{k: forward(n) for k, n in networks.items()}}, device
        )
    measured: dict[str, MeasuredRow] = {"bare": MeasuredRow(names={"method": "Backbone alone", "labels": "/"})}
    for key, value in seconds.items():
        values: dict[str, list[float]] = {"speed": [1000 * value], "ratio": [value / seconds["role"]]}
        if key in outcomes and lab.reports:
            values["mAP"] = [o.mAP for o in outcomes[key]]
        measured[key] = MeasuredRow(values, measured[key].names if key in measured else {})
    if lab.reports:
        full = {"method": variants.FULL.title, "labels": "all"}
        measured["full"] = MeasuredRow({"mAP": [o.mAP for o in outcomes["full"]]}, full)
    for key in ("sst", "sarb"):
        measured.setdefault(key, MeasuredRow(remark=f"not available: there is no method {key!r}"))
    used = lab.used([o for runs in outcomes.values() for o in runs])
    used["Measured on"] = (
        f"{_device(device)}, one image of {size} x {size} at a time; medians of one run in which the methods take turns"
    )
    report = beside_paper(
        "table-speed", paper_table("table-speed"), measured, data=lab.title, gap=ClosedGap("role"), used=used,
        titles={"ratio": "Time per image relative to the baseline"},
    )  # fmt: skip
    return list(write_report(add_paper_ratio(report), request.out))


def add_paper_ratio(report: Report) -> Report:
    """Add the paper's ratios: unlike milliseconds, they can nearly be compared between machines."""
    paper = paper_table("table-speed")
    baseline = paper.value("role", "speed")
    assert baseline is not None
    ids = {(row.names["method"], row.names["labels"]): row.id for row in paper.rows}
    rows = []
    for row in report.rows:
        value = paper.value(ids.get((str(row["method"]), str(row["labels"])), ""), "speed")
        ratio = None if value is None else PaperNumber(value / baseline, f"{value / baseline:.2f}")
        rows.append({**row, "paper ratio": ratio})
    columns = []
    for column in report.columns:
        columns.append(replace(column, decimals=2) if column.key == "ratio" else column)
        if column.key == "ratio":
            columns.append(Column("paper ratio", "Time per image relative to the baseline, paper"))
    return replace(report, columns=tuple(columns), rows=tuple(rows))


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"
