"""Masks of a model on a reported split, good and bad: the most confident hits and mistakes, and the worst misses.

    python benchmarks/gallery.py RUN --out FOLDER [--data SOURCE] [--split val] [--count 6]

Writes gallery.png and gallery.json into FOLDER. Do not commit pictures that belong to others.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.readers import open_split
from scob.data.split import ReadOptions, Split
from scob.inference.evaluate import scores_of
from scob.inference.explain import explain_images, overlay
from scob.inference.plots import picture_grid, save_figure
from scob.inference.predict import Scob
from scob.labels import ABSENT, PRESENT
from scob.parallel import start
from scob.training.find_model import find_model
from scob.training.run_folder import RunFolder

SIDE = 320
Pair = tuple[int, int]


def first_of_each_class(order: NDArray[np.int64], classes: int, count: int) -> list[Pair]:
    """The first `count` (image, class) pairs of a ranking; no class and no image occurs twice."""
    chosen: list[Pair] = []
    for flat in order:
        row, kind = divmod(int(flat), classes)
        if all(row != r and kind != c for r, c in chosen):
            chosen.append((row, kind))
        if len(chosen) == count:
            break
    return chosen


def choose(scores: NDArray[np.float32], truth: NDArray[np.int8], count: int) -> dict[str, list[Pair]]:
    """Pairs ranked by score alone over the whole split; none is picked by hand."""
    company = (truth == PRESENT).sum(axis=1, keepdims=True) > 1
    ranks = {
        "most confident hits": np.where((truth == PRESENT) & company, -scores, np.inf),
        "most confident mistakes": np.where(truth == ABSENT, -scores, np.inf),
        "worst misses": np.where(truth == PRESENT, scores, np.inf),
    }
    pairs = {}
    for name, rank in ranks.items():
        order = np.argsort(rank, axis=None, kind="stable")[: int(np.isfinite(rank).sum())]
        pairs[name] = first_of_each_class(order, truth.shape[1], count)
    return pairs


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
    where = find_model(args.run)
    source = args.data or (RunFolder(where.run).read_config().data.source if where.run is not None else "")
    processes = start("auto")
    model = Scob.from_pretrained(where.path, device=str(processes.device))
    split = open_split(source, args.split, ReadOptions(classes=model.classes))
    scores = scores_of(model.network, model.card, split, processes, workers=4).numpy()
    chosen = choose(scores, split.labels.values, args.count)
    rows = [draw(model, split, pairs) for pairs in chosen.values()]
    save_figure(picture_grid(rows, [""] * args.count, list(chosen)), args.out / "gallery")
    listing = {
        name: [
            {"image": split.labels.images[r], "class": model.classes[c], "score": float(scores[r, c])}
            for r, c in pairs
        ]
        for name, pairs in chosen.items()
    }  # fmt: skip
    (args.out / "gallery.json").write_text(json.dumps(listing, indent=1))
    print(f"written: {args.out / 'gallery.png'}")


if __name__ == "__main__":
    main()
