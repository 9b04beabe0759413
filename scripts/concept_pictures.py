"""Draw the picture of docs/concepts.md: python scripts/concept_pictures.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import scob
from scob.labels import ABSENT, PRESENT

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "single-positive.png"
SHOWN = 8  # classes
COLOURS = {PRESENT: "#2e7d32", ABSENT: "#b0b0b0", 0: "#ffffff"}
SIGNS = {PRESENT: "+1", ABSENT: "-1", 0: "0"}


def rows_with_three(values: np.ndarray) -> np.ndarray:
    """The first three images that show exactly three classes."""
    return np.flatnonzero((values == PRESENT).sum(axis=1) == 3)[:3]


def main() -> None:
    scenes = scob.open_split("scenes:40x128", "train")
    full = scenes.labels
    single, partial = full.single_positive(0), full.partial(0.5, 0)
    rows = rows_with_three(full.values)
    shown = np.argsort(-(full.values[rows] == PRESENT).sum(axis=0), kind="stable")[:SHOWN]
    columns = {"full labels": full, "single-positive": single, "partial labels": partial}
    figure, axes = plt.subplots(len(rows), 1 + len(columns), figsize=(10, 6.2), width_ratios=[1, 1, 1, 1])
    for number, (line, row) in enumerate(zip(axes, rows, strict=True)):
        line[0].imshow(scenes.images.load(int(row)))
        line[0].axis("off")
        for axis, (title, labels) in zip(line[1:], columns.items(), strict=True):
            axis.set(xlim=(0, 1), ylim=(SHOWN, 0))
            axis.axis("off")
            if number == 0:
                axis.set_title(title, fontsize=12)
            for position, label in enumerate(shown):
                state = int(labels.values[row, label])
                axis.text(0.1, position + 0.5, full.classes[label], va="center", fontsize=10)
                box = {
                    "boxstyle": "round,pad=0.25",
                    "facecolor": COLOURS[state],
                    "edgecolor": "#888888",
                    "linewidth": 0.6,
                }
                ink = "white" if state == PRESENT else "black"
                axis.text(0.8, position + 0.5, SIGNS[state], va="center", ha="center", fontsize=9, color=ink, bbox=box)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
