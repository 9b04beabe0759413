"""Write docs/results.md from the numbers the benchmarks left: python benchmarks/results_page.py"""

import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
ROWS = {
    "role-cnn": "ROLE + two-conv head (the paper's baseline)",
    "role-smt": "ROLE + SMT (Scob without contrast)",
    "scob": "Scob",
    "full-smt": "Full labels + SMT (the ceiling)",
}


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else f"{values[0]:.2f}"


def main_table(runs: list[dict[str, object]]) -> list[str]:
    """Mean and deviation over seeds, and the share of the distance from ROLE to full labels that is closed."""
    by_row = {row: [r for r in runs if r["name"] == row] for row in ROWS}

    def mean(row: str, key: str) -> float:
        return float(np.mean([r[key] for r in by_row[row]]))

    lines = ["| row | last epoch | held out, full labels | held out, observed labels | share closed (last) |"]
    lines.append("|---|---|---|---|---|")
    floor, ceiling = mean("role-cnn", "last"), mean("full-smt", "last")
    for row, title in ROWS.items():
        cells = [spread([r[key] for r in by_row[row]]) for key in ("last", "held_out_full", "held_out_observed")]
        share = 100 * (mean(row, "last") - floor) / (ceiling - floor)
        lines.append(f"| {title} | {' | '.join(cells)} | {share:.0f}% |")
    ahead = mean("scob", "held_out_full") - mean("role-cnn", "held_out_full")
    lines += ["", f"At their own best held-out epochs Scob is {ahead:.2f} mAP ahead of ROLE + conv."]
    return lines


def lever_table(runs: list[dict[str, object]]) -> list[str]:
    lines = ["| settings | held-out last | held-out best | val last |", "|---|---|---|---|"]
    for run in sorted(runs, key=lambda r: -float(str(r["holdout_last"]))):
        words = [w for w in run["words"] if not w.startswith(("train.holdout", "train.compile", "train.seed"))]
        numbers = " | ".join(f"{run[key]:.2f}" for key in ("holdout_last", "holdout_best", "last"))
        lines.append(f"| {run['name']}: {' '.join(words)} | {numbers} |")
    return lines


def page() -> str:
    found = json.loads((ROOT / "benchmarks" / "results" / "voc2007.json").read_text())
    head, tail = (ROOT / "benchmarks" / "results" / "page.md").read_text().split("<!-- tables -->")
    parts = [head, *main_table(found["main"]), "", "## What each lever gave", ""]
    parts += [
        "One seed each, 20% of the training images held out with full labels; a lever is kept by the held-out columns,",
        "never by val, which is shown for the record. Rows that name no rate used the first trial's rates",
        "(`train.lr_smt=4e-5`, `train.lr_estimator=0.01`); the rows m99 used today's defaults. The conv head's rate",
        "(`train.lr_other=1e-3`) was not varied.",
        "",
        *lever_table(found["levers"]),
    ]
    return "\n".join(parts) + tail


if __name__ == "__main__":
    (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
