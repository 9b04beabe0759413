"""Masks of a model on a reported split, good ones and bad: the surest hits, the surest mistakes, the worst misses.

    python benchmarks/gallery.py RUN --out FOLDER [--data SOURCE] [--split val] [--count 6]

Writes gallery.png and gallery.json into FOLDER. Pictures of other people stay where they are: do not commit them.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.readers import open_split
from scob.data.split import ReadOptions, Split
from scob.inference.explain import explain_images
from scob.inference.model import Scob
from scob.inference.overlays import overlay
from scob.inference.plots import save_figure
from scob.inference.scoring import Scoring, score_over_processes
from scob.labels import ABSENT, PRESENT
from scob.parallel import start
from scob.studies.reproduce.figures import picture_grid
from scob.training.find_model import find_model
from scob.training.run_folder import RunFolder

SIDE = 320
Pair = tuple[int, int]


def first_of_each_class(order: NDArray[np.int64], classes: int, count: int) -> list[Pair]:
    """The first `count` (image, class) pairs of a ranking, no class and no image twice."""
    chosen: list[Pair] = []
    for flat in order:
        row, kind = divmod(int(flat), classes)
        if all(row != r and kind != c for r, c in chosen):
            chosen.append((row, kind))
        if len(chosen) == count:
            break
    return chosen


def choose(scores: NDArray[np.float32], truth: NDArray[np.int8], count: int) -> dict[str, list[Pair]]:
    """Ranked by the score alone, over the whole split: nothing is picked by hand."""
    company = (truth == PRESENT).sum(axis=1, keepdims=True) > 1
    ranks = {
        "surest hits": np.where((truth == PRESENT) & company, -scores, np.inf),
        "surest mistakes": np.where(truth == ABSENT, -scores, np.inf),
        "worst misses": np.where(truth == PRESENT, scores, np.inf),
    }
    found = {}
    for name, rank in ranks.items():
        order = np.argsort(rank, axis=None, kind="stable")[: int(np.isfinite(rank).sum())]
        found[name] = first_of_each_class(order, truth.shape[1], count)
    return found


def draw(model: Scob, split: Split, pairs: list[Pair]) -> list[NDArray[np.uint8]]:
    pictures = []
    for row, kind in pairs:
        pixels = split.images.load(row, SIDE)
        [seen] = explain_images(model, [split.images.load(row)], [model.classes[kind]])
        pictures.append(np.asarray(overlay(pixels, seen)))
    return pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", default="")
    parser.add_argument("--split", default="val")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=6)
    args = parser.parse_args()
    found = find_model(args.run)
    source = args.data or (RunFolder(found.run).read_config().data.source if found.run is not None else "")
    processes = start("auto")
    model = Scob.from_pretrained(found.path, device=str(processes.device))
    split = open_split(source, args.split, ReadOptions(classes=model.classes))
    scores = score_over_processes(model.network, model.card, split, Scoring(workers=4), processes).numpy()
    chosen = choose(scores, split.labels.values, args.count)
    rows = [draw(model, split, pairs) for pairs in chosen.values()]
    save_figure(picture_grid(rows, [""] * args.count, list(chosen)), args.out / "gallery")
    told = {
        name: [
            {"image": split.labels.images[r], "class": model.classes[c], "score": float(scores[r, c])}
            for r, c in pairs
        ]
        for name, pairs in chosen.items()
    }  # fmt: skip
    (args.out / "gallery.json").write_text(json.dumps(told, indent=1))
    print(f"written: {args.out / 'gallery.png'}")


if __name__ == "__main__":
    main()
