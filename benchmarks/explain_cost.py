"""What an explanation costs on a CPU, next to a prediction of the same image: 224 pixels, ResNet-50, one thread.

    OMP_NUM_THREADS=1 python benchmarks/explain_cost.py WEIGHTS

Times are processor time, so that other programs on the machine disturb them little; the least of five runs counts.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch

from scob.algorithm.cam import MapSettings
from scob.bench.workload import bench_config, random_data
from scob.inference.class_maps import EXPLAINED
from scob.inference.decoding import Pixels
from scob.inference.explain import explain_images
from scob.inference.model import Scob
from scob.inference.predict import predict_images
from scob.inference.predictions import NamingRule
from scob.parallel import start
from scob.training.build import build
from scob.training.model_folder import ModelCard

SIZE, RUNS = 224, 5


def random_model(weights: str) -> Scob:
    """A model with the backbone's weights and a new head; nothing is predicted, so nothing competes unasked."""
    data = random_data(16, SIZE)
    network = build(bench_config(weights, 8, SIZE), data, start("cpu")).network.eval()
    classes = data.train.labels.classes
    card = ModelCard(
        classes, SIZE, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), (1.0,) * len(classes),
        model={}, grids=((14, 14), (7, 7)), backbone_name="", backbone={}, method="", labels={},
    )  # fmt: skip
    return Scob(network.to(memory_format=torch.channels_last), card, torch.device("cpu"))


def milliseconds(run: Callable[[], object]) -> float:
    """The least processor time of some runs, after one that is not counted."""
    run()
    times = []
    for _ in range(RUNS):
        before = time.process_time()
        run()
        times.append(time.process_time() - before)
    return 1000 * min(times)


def main(weights: str) -> None:
    """A line for each batch size and number of classes."""
    torch.set_num_threads(1)
    model = random_model(weights)
    random = np.random.default_rng(0)
    pictures = list(random.integers(0, 256, (8, SIZE, SIZE, 3), dtype=np.uint8))
    for batch in (1, 8):
        some = pictures[:batch]
        predicting = milliseconds(partial(prediction, model, some)) / batch
        for classes, mirror in product((1, 2, 3), (False, True)):
            maps = replace(EXPLAINED, mirror=mirror)
            explaining = milliseconds(partial(explanation, model, some, NamingRule(classes), maps)) / batch
            kind = "mirrored explanation" if mirror else "explanation"
            print(
                f"batch {batch}, {classes} per image: prediction {predicting:.0f} ms, {kind} {explaining:.0f} ms, "
                f"{explaining / predicting:.2f} times as long"
            )


def prediction(model: Scob, pictures: list[Pixels]) -> None:
    """Name the pictures."""
    list(predict_images(model, pictures, NamingRule(1), len(pictures)))


def explanation(model: Scob, pictures: list[Pixels], rule: NamingRule, maps: MapSettings) -> None:
    """Explain the pictures."""
    list(explain_images(model, pictures, rule, maps, len(pictures)))


if __name__ == "__main__":
    main(str(Path(sys.argv[1])))
