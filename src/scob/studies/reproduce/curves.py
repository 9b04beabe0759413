"""fig-gamma, fig-lambda, fig-negatives: Scob over the values of one setting; ROLE and full labels are lines."""

from pathlib import Path

from scob.inference import plots
from scob.studies.reproduce import figures, variants
from scob.studies.reproduce.lab import Lab, ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_figure, paper_table
from scob.studies.reproduce.report import (
    SHARE_TITLE,
    Cell,
    Column,
    PaperNumber,
    Report,
    closed_share,
    spread,
    write_report,
)

LABELS = {
    "fig-gamma": "CAM threshold",
    "fig-lambda": "Weight of the contrastive loss",
    "fig-negatives": "t, negatives per other class",
}


def setting_figure(request: ReproductionRequest, name: str, values: tuple[float, ...]) -> list[Path]:
    """One figure per data set, and the numbers in it."""
    written: list[Path] = []
    for lab in request.labs:
        lab.need_reported_split(name)
        stem = name if len(request.labs) == 1 else f"{name}-{lab.id}"
        written += _figure(request, lab, name, stem, values)
    return written


def fig_gamma(request: ReproductionRequest) -> list[Path]:
    """Thresholds of Eq. 3."""
    return setting_figure(request, "fig-gamma", variants.GAMMAS)


def fig_lambda(request: ReproductionRequest) -> list[Path]:
    """Weights of the contrastive loss."""
    return setting_figure(request, "fig-lambda", variants.LAMBDAS)


def fig_negatives(request: ReproductionRequest) -> list[Path]:
    """t = 1, 10, 100, 1000."""
    return setting_figure(request, "fig-negatives", variants.NEGATIVES)


def _figure(request: ReproductionRequest, lab: Lab, name: str, stem: str, values: tuple[float, ...]) -> list[Path]:
    paper = paper_figure(name)
    assert paper.setting is not None
    role, full = lab.runs(variants.ROLE), lab.runs(variants.FULL)
    runs = {value: lab.runs(v) for value, v in variants.setting_rows(paper.setting, values).items()}
    ends = {"ROLE": _mean(role), "full labels": _mean(full)}
    points = {value: [o.mAP for o in outcomes] for value, outcomes in runs.items()}
    paper_data = lab.id if lab.id in paper.data else paper.data[0]
    printed = paper_table("table-main").value("scob", paper_data)
    figure = figures.setting_lines(
        {"Scob": points}, LABELS[name],
        levels={key: value for key, value in ends.items() if value is not None},
        paper_chosen=paper.chosen,
        paper_points={"Scob": {paper.chosen: printed}} if paper_data == lab.id and printed and paper.chosen else None,
        title=f"mAP on {lab.title}", log_x=name != "fig-gamma",
    )  # fmt: skip
    rows: list[dict[str, Cell]] = []
    for value, outcomes in runs.items():
        mean = _mean(outcomes)
        number = printed if value == paper.chosen else None
        rows.append(
            {
                "value": f"{value:g}",
                "mAP": spread(points[value]),
                "paper": None if number is None else PaperNumber(number, f"{number:.1f}"),
                "share": closed_share(mean, ends["ROLE"], ends["full labels"]),
            }
        )
    zero = closed_share(ends["ROLE"], ends["ROLE"], ends["full labels"])
    rows.append({"value": "ROLE", "mAP": spread([o.mAP for o in role]), "share": zero})
    rows.append({"value": "full labels", "mAP": spread([o.mAP for o in full])})
    columns = (
        Column("value", f"{LABELS[name]} (`{paper.setting}`)"),
        Column("mAP", f"mAP, ours on {lab.title}"),
        Column("paper", f"mAP on {_title(paper_data)}, paper (its chosen value; it prints no other number)"),
        Column("share", SHARE_TITLE, 0, "%"),
    )
    notes = (*paper.claim_notes, *(note.text for note in paper.notes))
    every = [o for outcomes in (*runs.values(), role, full) for o in outcomes]
    report = Report(stem, paper.title, columns, tuple(rows), notes, lab.used(every))
    return [*plots.save_figure(figure, request.out / stem), *write_report(report, request.out)]


def _mean(outcomes: list[VariantRun]) -> float | None:
    values = spread([o.mAP for o in outcomes])
    return None if values is None else values.mean


def _title(data: str) -> str:
    return paper_table("table-main").columns[data].title
