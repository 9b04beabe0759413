"""The tables of docs/results.md that were measured once: earlier choices of settings, and speed."""

from typing import Any

import numpy as np

from results_data import spread
from results_tables import MAIN


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
    for row in list(MAIN)[1:]:
        cells = [
            spread([r[key] for r in runs if r["name"] == row])
            for key in ("last", "held_out_full")
            for runs in (post, pre)
        ]
        lines.append(f"| {MAIN[row]} | {' | '.join(cells)} |")
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


def inference_speed(measured: dict[str, Any]) -> list[str]:
    """Milliseconds of the whole network and of the backbone alone."""
    kinds = {
        "folded": measured["predict speed, kernels apart"],
        "fused": measured["predict speed"],
        **{f"fused, {kind}": rows for kind, rows in measured["predict speed, streams and ReLU"].items()},
    }
    lines = ["| kernels | batch | whole network | backbone alone | ratio |", "|---|---|---|---|---|"]
    for kernels, rows in kinds.items():
        for r in rows:
            cells = f"{r['network_ms']:.2f} ms | {r['backbone_ms']:.2f} ms | {r['ratio']:.3f}"
            lines.append(f"| {kernels.replace('fused, the same', 'the same')} | {r['batch']} | {cells} |")
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
