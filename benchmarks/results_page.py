"""Write docs/results.md: `python benchmarks/results_page.py`.

The words come from results/page.md, the numbers of the tables from results/voc2007.json.
"""

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
    """Mean and deviation; a single value alone."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else f"{values[0]:.2f}"


def main_table(runs: list[dict[str, object]]) -> list[str]:
    """Mean and deviation over seeds, and the share of the gap between ROLE and full labels that is closed."""
    by_row = {row: [r for r in runs if r["name"] == row] for row in ROWS}

    def mean(row: str, key: str) -> float:
        return float(np.mean([r[key] for r in by_row[row]]))

    lines = ["| row | last epoch | held out, full labels | held out, observed labels | gap closed (last) |"]
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
    """One line per setting with the mean of its seeds, the best first."""
    of_setting: dict[str, list[dict[str, object]]] = {}
    for run in runs:
        words = [w for w in run["words"] if not w.startswith(("train.holdout", "train.compile", "train.seed"))]
        of_setting.setdefault(f"{run['name']}: {' '.join(words) or 'the defaults'}", []).append(run)

    def means(setting: str) -> list[float]:
        return [float(np.mean([r[k] for r in of_setting[setting]])) for k in ("holdout_last", "holdout_best", "last")]

    lines = ["| settings | seeds | held-out last | held-out best | val last |", "|---|---|---|---|---|"]
    for setting in sorted(of_setting, key=lambda s: -means(s)[0]):
        numbers = " | ".join(f"{value:.2f}" for value in means(setting))
        lines.append(f"| {setting} | {len(of_setting[setting])} | {numbers} |")
    return lines


def norm_table(post: list[dict[str, object]], pre: list[dict[str, object]]) -> list[str]:
    """The rows with an SMT: layer norms after each sub-layer and before it."""
    lines = ["| row | post, last | pre, last | post, held out | pre, held out |", "|---|---|---|---|---|"]
    for row in list(ROWS)[1:]:
        cells = [
            spread([r[key] for r in runs if r["name"] == row])
            for key in ("last", "held_out_full")
            for runs in (post, pre)
        ]
        lines.append(f"| {ROWS[row]} | {' | '.join(cells)} |")
    return lines


# The rows of Tab. 3 (head, guidance, contrast) in the order of the paper.
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
    """The rows of Tab. 3. Repeats of a seed, which differ because a GPU adds in no fixed order, count as one run."""
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


def training_speed(rows: list[dict[str, object]]) -> list[str]:
    """Images per second, with separate and with fused kernels."""
    rates = {(r["step"], r["batch"], r["kernels"]): r["images_per_second"] for r in rows if r["of"] == "training"}
    columns = [(batch, kernels) for batch in (8, 64) for kernels in ("folded", "fused")]
    lines = [f"| | {' | '.join(f'batch {b}, {k}' for b, k in columns)} |", "|---|" + "---|" * len(columns)]
    for step, title in (("graph", "graph"), ("graph, kept features", "graph, cached features")):
        lines.append(f"| {title} | {' | '.join(f'{rates[(step, *column)]:.0f}' for column in columns)} |")
    return lines


def backbone_speed(rows: list[dict[str, object]]) -> list[str]:
    """Milliseconds of the backbone's forward pass."""
    times = {(r["batch"], r["kernels"]): r["ms"] for r in rows if r["of"] == "backbone"}
    kinds = ("plain", "folded", "fused")
    lines = [f"| batch | {' | '.join(kinds)} | folded / fused |", "|---|---|---|---|---|"]
    for batch in sorted({batch for batch, _ in times}):
        cells = " | ".join(f"{times[batch, kind]:.2f} ms" for kind in kinds)
        lines.append(f"| {batch} | {cells} | {times[batch, 'folded'] / times[batch, 'fused']:.2f} |")
    return lines


def inference_speed(fused: list[dict[str, object]], folded: list[dict[str, object]]) -> list[str]:
    """Milliseconds of the whole network and of the backbone alone."""
    lines = ["| batch | kernels | whole network | backbone alone | ratio |", "|---|---|---|---|---|"]
    for kernels, rows in (("folded", folded), ("fused", fused)):
        for r in rows:
            cells = f"{r['network_ms']:.2f} ms | {r['backbone_ms']:.2f} ms | {r['ratio']:.2f}"
            lines.append(f"| {r['batch']} | {kernels} | {cells} |")
    return lines


def export_table(rows: list[dict[str, object]]) -> list[str]:
    """Speed relative to eager PyTorch, by the medians and, in brackets, by the best rounds."""
    lines = ["| threads | PyTorch, eager | ONNX fp32 | ONNX int8 |", "|---|---|---|---|"]
    for r in rows:
        slow = r["torch"]
        gains = [
            f"{slow['median ms'] / r[kind]['median ms']:.2f} ({slow['best ms'] / r[kind]['best ms']:.2f})"
            for kind in ("fp32", "int8")
        ]
        lines.append(f"| {r['threads']} | {slow['median ms'] / 1000:.2f} s per batch | {' | '.join(gains)} |")
    return lines


def draw_curves(runs: list[dict[str, object]]) -> None:
    """Draw mAP by epoch, the mean of the seeds, for the page."""
    from scob.inference.plots import save_figure, training_curves

    panels: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for key, title in (("mAP", "mAP on val"), ("mAP-holdout-full", "mAP on held-out training images")):
        panels[title] = {}
        for row, name in ROWS.items():
            curves = np.array([[point[key] for point in r["curve"]] for r in runs if r["name"] == row])
            panels[title][name] = (list(range(1, curves.shape[1] + 1)), curves.mean(axis=0).tolist())
    save_figure(training_curves(panels), ROOT / "docs" / "images" / "voc2007-curves")
    (ROOT / "docs" / "images" / "voc2007-curves.svg").unlink()


def page() -> str:
    """The page with its tables filled in."""
    results = json.loads((ROOT / "benchmarks" / "results" / "voc2007.json").read_text())
    text = (ROOT / "benchmarks" / "results" / "page.md").read_text()
    parts = {
        "main": main_table(results["main"]),
        "ablation": ablation_table(results["main"] + results["ablation"]),
        "levers": lever_table(results["levers"]),
        "norms": norm_table(results["main"], results["pre-norm"]),
        "training speed": training_speed(results["fused kernels"]),
        "backbone speed": backbone_speed(results["fused kernels"]),
        "inference speed": inference_speed(results["predict speed"], results["predict speed, kernels apart"]),
        "export": export_table(results["export on a CPU"]),
    }
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    return text


if __name__ == "__main__":
    draw_curves(json.loads((ROOT / "benchmarks" / "results" / "voc2007.json").read_text())["main"])
    (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
