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


# Tab. 3 of the paper by (head, guidance, contrast); the paper's order is from the top down.
ABLATION = {
    "role-cnn": "two-conv, no guidance, no contrast (ROLE)",
    "large-cnn": "large conv, no guidance, no contrast",
    "role-smt": "SMT, no contrast",
    "cnn-ipt": "two-conv, no guidance, tree",
    "smt-nocam-random": "SMT, no guidance, random",
    "smt-nocam-ipt": "SMT, no guidance, tree",
    "smt-cam-random": "SMT, CAM guidance, random",
    "scob": "SMT, CAM guidance, tree (Scob)",
}


def ablation_table(runs: list[dict[str, object]]) -> list[str]:
    """The rows of Tab. 3; repeats of one seed (a GPU does not add in a fixed order) are counted as one."""
    lines = ["| row | seeds | last epoch | held out, full labels |", "|---|---|---|---|"]
    for row, title in ABLATION.items():
        by_seed: dict[str, list[dict[str, object]]] = {}
        for run in runs:
            if run["name"] == row:
                by_seed.setdefault(str(run["words"][-1]), []).append(run)
        cells = [
            spread([float(np.mean([r[key] for r in repeats])) for repeats in by_seed.values()])
            for key in ("last", "held_out_full")
        ]
        lines.append(f"| {title} | {len(by_seed)} | {' | '.join(cells)} |")
    return lines


def speed_tables(found: dict[str, list[dict[str, object]]]) -> list[str]:
    """Images a second in training, milliseconds in inference."""
    rows = found["train speed"]
    batches = sorted({int(str(r["batch"])) for r in rows})
    lines = [f"| | {' | '.join(f'batch {b}' for b in batches)} |", "|---|" + "---|" * len(batches)]
    for step in dict.fromkeys(str(r["step"]) for r in rows):
        rates = {r["batch"]: r["images_per_second"] for r in rows if r["step"] == step}
        lines.append(f"| {step} | {' | '.join(f'{rates[b]:.0f}' for b in batches)} |")
    lines += ["", "| batch | whole network | bare backbone | ratio |", "|---|---|---|---|"]
    for r in found["predict speed"]:
        lines.append(f"| {r['batch']} | {r['network_ms']:.2f} ms | {r['backbone_ms']:.2f} ms | {r['ratio']:.2f} |")
    return lines


def draw_curves(runs: list[dict[str, object]]) -> None:
    """mAP by epoch, the mean of the seeds, as a picture beside the page."""
    from scob.plots import save_figure, training_curves

    panels: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for key, title in (("mAP", "mAP on val"), ("mAP-holdout-full", "mAP on held-out training images")):
        panels[title] = {}
        for row, name in ROWS.items():
            curves = np.array([[point[key] for point in r["curve"]] for r in runs if r["name"] == row])
            panels[title][name] = (list(range(1, curves.shape[1] + 1)), curves.mean(axis=0).tolist())
    save_figure(training_curves(panels), ROOT / "docs" / "images" / "voc2007-curves")
    (ROOT / "docs" / "images" / "voc2007-curves.svg").unlink()


def page() -> str:
    found = json.loads((ROOT / "benchmarks" / "results" / "voc2007.json").read_text())
    text = (ROOT / "benchmarks" / "results" / "page.md").read_text()
    parts = {
        "main": main_table(found["main"]),
        "ablation": ablation_table(found["main"] + found["ablation"]),
        "levers": lever_table(found["levers"]),
        "speed": speed_tables(found),
    }
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    return text


if __name__ == "__main__":
    draw_curves(json.loads((ROOT / "benchmarks" / "results" / "voc2007.json").read_text())["main"])
    (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
