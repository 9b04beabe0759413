"""fig-gamma, fig-lambda and fig-negatives: Scob over the values of one setting, with ROLE and full labels as lines."""

from pathlib import Path

from scob.inference import plots
from scob.studies.reproduce import figures, variants
from scob.studies.reproduce.lab import Lab, Outcome, Work
from scob.studies.reproduce.paper import paper_figure, paper_table
from scob.studies.reproduce.report import (
    SHARE_TITLE,
    Cell,
    Column,
    FromPaper,
    Report,
    closed_share,
    spread,
    write_report,
)

LABELS = {
    "fig-gamma": "CAM threshold",
    "fig-lambda": "Weight of the contrastive loss",
    "fig-negatives": "t, negatives of every other class",
}


def setting_figure(work: Work, name: str, values: tuple[float, ...]) -> list[Path]:
    """One figure and the numbers in it, for every data set that was given."""
    written: list[Path] = []
    for lab in work.labs:
        lab.need_reported_split(name)
        stem = name if len(work.labs) == 1 else f"{name}-{lab.id}"
        written += _one(work, lab, name, stem, values)
    return written


def fig_gamma(work: Work) -> list[Path]:
    """Thresholds of Eq. 3."""
    return setting_figure(work, "fig-gamma", variants.GAMMAS)


def fig_lambda(work: Work) -> list[Path]:
    """Weights of the contrastive loss."""
    return setting_figure(work, "fig-lambda", variants.LAMBDAS)


def fig_negatives(work: Work) -> list[Path]:
    """t = 1, 10, 100, 1000."""
    return setting_figure(work, "fig-negatives", variants.NEGATIVES)


def _one(work: Work, lab: Lab, name: str, stem: str, values: tuple[float, ...]) -> list[Path]:
    paper = paper_figure(name)
    assert paper.setting is not None
    role, full = lab.runs(variants.ROLE), lab.runs(variants.FULL)
    found = {value: lab.runs(v) for value, v in variants.setting_rows(paper.setting, values).items()}
    ends = {"ROLE": _mean(role), "full labels": _mean(full)}
    points = {value: [o.mAP for o in outcomes] for value, outcomes in found.items()}
    of = lab.id if lab.id in paper.data else paper.data[0]
    printed = paper_table("table-main").value("scob", of)
    figure = figures.setting_lines(
        {"Scob": points}, LABELS[name],
        levels={key: value for key, value in ends.items() if value is not None},
        paper_chosen=paper.chosen,
        paper_points={"Scob": {paper.chosen: printed}} if of == lab.id and printed and paper.chosen else None,
        title=f"mAP on {lab.title}", log_x=name != "fig-gamma",
    )  # fmt: skip
    rows: list[dict[str, Cell]] = []
    for value, outcomes in found.items():
        mean = _mean(outcomes)
        number = printed if value == paper.chosen else None
        rows.append(
            {
                "value": f"{value:g}",
                "mAP": spread(points[value]),
                "paper": None if number is None else FromPaper(number, f"{number:.1f}"),
                "share": closed_share(mean, ends["ROLE"], ends["full labels"]),
            }
        )
    zero = closed_share(ends["ROLE"], ends["ROLE"], ends["full labels"])
    rows.append({"value": "ROLE", "mAP": spread([o.mAP for o in role]), "share": zero})
    rows.append({"value": "full labels", "mAP": spread([o.mAP for o in full])})
    columns = (
        Column("value", f"{LABELS[name]} (`{paper.setting}`)"),
        Column("mAP", f"mAP, ours on {lab.title}"),
        Column("paper", f"mAP on {_title(of)}, paper (its choice; the rest is a curve without numbers)"),
        Column("share", SHARE_TITLE, 0, "%"),
    )
    notes = tuple(f"The paper: {claim}" for claim in paper.claims) + tuple(note.text for note in paper.notes)
    every = [o for outcomes in (*found.values(), role, full) for o in outcomes]
    report = Report(stem, paper.title, columns, tuple(rows), notes, lab.used(every))
    return [*plots.save_figure(figure, work.out / stem), *write_report(report, work.out)]


def _mean(outcomes: list[Outcome]) -> float | None:
    found = spread([o.mAP for o in outcomes])
    return None if found is None else found.mean


def _title(data: str) -> str:
    return paper_table("table-main").columns[data].title
