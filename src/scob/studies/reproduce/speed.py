"""table-speed: time per image of every method's trained network, one image at a time, measured in one run."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from scob import methods
from scob.model.network import Network
from scob.studies.reproduce import variants
from scob.studies.reproduce.lab import Outcome, Work
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import Column, FromPaper, Measured, Report, beside_paper, write_report
from scob.studies.reproduce.variants import Variant
from scob.training.model_folder import load_network

ROUNDS = 25
SECONDS = 30.0  # at most this long for all rounds together


def rows() -> dict[str, Variant]:
    """The paper's four rows, of the methods that are there, and full labels."""
    known = methods.names()
    structured: dict[str, Variant] = {}
    for name in ("sst", "sarb"):
        if name in known:
            structured[name] = variants.partial(variants.rival(name, methods.find(name).title))
    return {"role": variants.ROLE, **structured, "scob": variants.SCOB, "full": variants.FULL}


@torch.inference_mode()
def times(forwards: Mapping[str, Callable[[], object]], device: torch.device) -> dict[str, float]:
    """Median milliseconds of each, taken in turns so that whatever else the machine does falls on all alike."""
    found: dict[str, list[float]] = {name: [] for name in forwards}
    for forward in forwards.values():
        for _ in range(3):
            forward()
    began = time.perf_counter()
    for number in range(ROUNDS):
        for name, forward in forwards.items():
            _finish(device)
            start = time.perf_counter()
            forward()
            _finish(device)
            found[name].append(1000 * (time.perf_counter() - start))
        if number >= 4 and time.perf_counter() - began > SECONDS:
            break
    return {name: statistics.median(values) for name, values in found.items()}


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def table_speed(work: Work) -> list[Path]:
    """Baseline, SST, SARB and Scob: milliseconds, the ratio to the baseline, mAP."""
    lab = work.lab
    device = lab.processes.device
    outcomes: dict[str, list[Outcome]] = {key: lab.runs(variant) for key, variant in rows().items()}
    networks = {key: load_network(found[0].run.model, device)[0] for key, found in outcomes.items() if key != "full"}
    size = lab.base.data.size
    image = torch.rand(1, 3, size, size, device=device)
    bare = networks["role"].backbone

    def whole(network: Network) -> Callable[[], object]:
        return lambda: network(image)

    taken = times({"bare": lambda: bare(image), **{key: whole(n) for key, n in networks.items()}}, device)
    measured: dict[str, Measured] = {"bare": Measured(names={"method": "Backbone alone", "labels": "/"})}
    for key, value in taken.items():
        values: dict[str, list[float]] = {"speed": [value], "ratio": [value / taken["role"]]}
        if key in outcomes and lab.reports:
            values["mAP"] = [o.mAP for o in outcomes[key]]
        measured[key] = Measured(values, measured[key].names if key in measured else {})
    if lab.reports:
        full = {"method": variants.FULL.title, "labels": "all"}
        measured["full"] = Measured({"mAP": [o.mAP for o in outcomes["full"]]}, full)
    for key in ("sst", "sarb"):
        measured.setdefault(key, Measured(remark=f"not available: there is no method {key!r}"))
    used = lab.used([o for found in outcomes.values() for o in found])
    used["Measured on"] = (
        f"{_device(device)}, one image of {size} x {size} at a time, medians of turns taken in one run"
    )
    report = beside_paper(
        "table-speed", paper_table("table-speed"), measured, data=lab.title, role="role", full="full", used=used,
        titles={"ratio": "Time per image, times the baseline's"},
    )  # fmt: skip
    return list(write_report(beside_ratio(report), work.out))


def beside_ratio(report: Report) -> Report:
    """The paper's own ratios beside ours: milliseconds of two machines do not compare, ratios nearly do."""
    paper = paper_table("table-speed")
    baseline = paper.value("role", "speed")
    assert baseline is not None
    ids = {(row.names["method"], row.names["labels"]): row.id for row in paper.rows}
    rows = []
    for row in report.rows:
        value = paper.value(ids.get((str(row["method"]), str(row["labels"])), ""), "speed")
        ratio = None if value is None else FromPaper(value / baseline, f"{value / baseline:.2f}")
        rows.append({**row, "paper ratio": ratio})
    columns = []
    for column in report.columns:
        columns.append(replace(column, decimals=2) if column.key == "ratio" else column)
        if column.key == "ratio":
            columns.append(Column("paper ratio", "Time per image, times the baseline's, paper"))
    return replace(report, columns=tuple(columns), rows=tuple(rows))


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"
