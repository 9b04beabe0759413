"""Good and bad masks of a model on a reported split: its most confident hits and mistakes, and its worst misses.

    python benchmarks/gallery.py RUN --out FOLDER [--data SOURCE] [--split val] [--count 6]

Writes gallery.png and gallery.json to FOLDER. Do not commit a gallery of photographs: they belong to other people.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.data.feed import Feed, FeedOptions
from scob.data.readers import open_split
from scob.data.split import ReadOptions, Split
from scob.inference.model import Scob
from scob.inference.overlays import overlay
from scob.inference.plots import save_figure
from scob.labels import ABSENT, PRESENT
from scob.studies.reproduce.figures import picture_grid
from scob.training.find_model import find_model
from scob.training.run_folder import RunFolder
from scob.training.scoring import model_source, score_images

SIDE = 320
Pair = tuple[int, int]


def first_of_each_class(order: NDArray[np.int64], classes: int, count: int) -> list[Pair]:
    """The first `count` (image, class) pairs of a ranking in which neither an image nor a class repeats."""
    pairs: list[Pair] = []
    for flat in order:
        row, kind = divmod(int(flat), classes)
        if all(row != r and kind != c for r, c in pairs):
            pairs.append((row, kind))
        if len(pairs) == count:
            break
    return pairs


def choose(scores: NDArray[np.float32], truth: NDArray[np.int8], count: int) -> dict[str, list[Pair]]:
    """The pairs of each kind, ranked by score over the whole split: nothing is picked by hand."""
    several_objects = (truth == PRESENT).sum(axis=1, keepdims=True) > 1
    ranks = {
        "most confident hits": np.where((truth == PRESENT) & several_objects, -scores, np.inf),
        "most confident mistakes": np.where(truth == ABSENT, -scores, np.inf),
        "worst misses": np.where(truth == PRESENT, scores, np.inf),
    }
    pairs = {}
    for name, rank in ranks.items():
        order = np.argsort(rank, axis=None, kind="stable")[: int(np.isfinite(rank).sum())]
        pairs[name] = first_of_each_class(order, truth.shape[1], count)
    return pairs


def draw(model: Scob, split: Split, pairs: list[Pair]) -> list[NDArray[np.uint8]]:
    """Each image with the map of its class drawn over it."""
    pictures = []
    for row, kind in pairs:
        pixels = split.images.load(row, SIDE)
        [explanation] = model.explain([split.images.load(row)], [model.classes[kind]])
        pictures.append(np.asarray(overlay(pixels, explanation)))
    return pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", default="")
    parser.add_argument("--split", default="val")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=6)
    args = parser.parse_args()
    run = find_model(args.run).run
    source = args.data or (RunFolder(run).read_config().data.source if run is not None else "")
    model = Scob.from_pretrained(args.run)
    split = open_split(source, args.split, ReadOptions(classes=model.classes))
    with Feed(split, model.size, model.device, FeedOptions(workers=4)) as feed:
        scores = score_images(model.network, model_source(model.network, model.card, model.device), feed).numpy()
    shown = choose(scores, split.labels.values, args.count)
    rows = [draw(model, split, pairs) for pairs in shown.values()]
    save_figure(picture_grid(rows, [""] * args.count, list(shown)), args.out / "gallery")
    listed = {
        name: [
            {"image": split.labels.images[r], "class": model.classes[c], "score": float(scores[r, c])}
            for r, c in pairs
        ]
        for name, pairs in shown.items()
    }  # fmt: skip
    (args.out / "gallery.json").write_text(json.dumps(listed, indent=1))
    print(f"written: {args.out / 'gallery.png'}")


if __name__ == "__main__":
    main()
