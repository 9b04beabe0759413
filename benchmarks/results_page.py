"""Write docs/results.md and its curves: `python benchmarks/results_page.py`.

The words come from results/page.md. The numbers come from the runs in results/*.jsonl, which `accuracy.py` writes, and
from results/voc2007.json (speed, and older runs). Put a new results.jsonl there and run this script again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import results_history as history
import results_tables as tables
from results_data import ALL_IMAGES, RESULTS, DataSet, data_sets, lines_of, read_runs

DOCS = Path(__file__).parent.parent / "docs"


def section(data: DataSet) -> list[str]:
    """The heading, main rows and curves of one data set."""
    title = data.title[0].upper() + data.title[1:]
    lines = [f"### {title}", tables.images_sentence(data), tables.settings_sentence(data), ""]
    lines += [*tables.main_table(data), "", tables.gap_sentence(data), ""]
    return [*lines, f"![mAP by epoch on {data.title}, mean of the seeds](images/{data.name}-curves.png)", ""]


def page(folder: Path = RESULTS) -> str:
    """The page with its tables filled in."""
    runs = read_runs(folder)
    sets = data_sets(runs)
    old = json.loads((folder / "voc2007.json").read_text())
    parts = {
        "claims": tables.claim_table(sets),
        "data sets": [line for data in sets for line in section(data)],
        "ablation": tables.ablation_table(sets),
        "all images": tables.all_images_table(lines_of(folder / f"{ALL_IMAGES}.jsonl")) or ["(Not run yet.)"],
        "methods": tables.method_table(sets) or ["(Not run with this script yet.)"],
        "candidates": tables.candidate_table(runs) or ["(No candidates were run with this script yet.)"],
        "levers": history.lever_table(old["levers"]),
        "norms": history.norm_table(old["main"], old["pre-norm"]),
        "training speed": history.training_speed(old["fused kernels"]),
        "backbone speed": history.backbone_speed(old["fused kernels"]),
        "inference speed": history.inference_speed(old),
        "export": history.export_table(old["export on a CPU"]),
    }
    text = (RESULTS / "page.md").read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines).strip())
    return text


def curve(data: DataSet, row: str, key: str) -> tuple[list[int], list[float]]:
    """Epochs from 1, and the mean over the runs of a row."""
    curves = [[point[key] for point in run["curve"]] for run in data.runs if run["name"] == row]
    means = [fmean(values) for values in zip(*curves, strict=True)]
    return list(range(1, len(means) + 1)), means


def draw_curves(sets: Sequence[DataSet]) -> None:
    """Draw mAP by epoch of the main rows, a figure per data set."""
    from scob.inference.plots import save_figure, training_curves

    for data in sets:
        panels = {}
        for key, where in (("mAP", "reported images"), ("mAP-holdout-full", "held-out training images")):
            shown = {row: name for row, name in tables.MAIN.items() if row in data.rows}
            panels[f"mAP on {where}"] = {name: curve(data, row, key) for row, name in shown.items()}
        file = DOCS / "images" / f"{data.name}-curves"
        save_figure(training_curves(panels), file)
        file.with_suffix(".svg").unlink()


if __name__ == "__main__":
    draw_curves(data_sets(read_runs()))
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
