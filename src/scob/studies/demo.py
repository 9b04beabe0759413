"""The demo: one label per image, every method on the same frozen backbone, one table, one page.

Assume-negative and ROLE use the paper's baseline head (two convolutions, Tab. 3), Scob and full labels the two SMTs.
ROLE is also run with Scob's network, which separates the network's gain from the method's.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scob import methods
from scob.algorithm.cam import MapSettings
from scob.config import Config, merge, parse_overrides, resolve, with_preset
from scob.files import write_atomically
from scob.inference.class_maps import EXPLAINED, ClassMaps, class_maps
from scob.inference.competition import places_of
from scob.labels import PRESENT, UNKNOWN, Labels
from scob.launch import launch
from scob.model.backbone import Features
from scob.model.features import autocast
from scob.parallel import choose_device, start
from scob.presets import packaged_config
from scob.studies.demo_report import page
from scob.studies.demo_results import COLUMNS, LONGEST_FIRST, METHODS, Demo, Picture, Row
from scob.studies.side_by_side import side_by_side
from scob.training.build import Experiment
from scob.training.events import Listener, RunEnds, silent
from scob.training.inputs import open_inputs
from scob.training.metrics import recovery_metrics
from scob.training.run_data import load_data
from scob.training.train import SharedParts, train

GALLERY = 12
EVALUATE_EVERY = 4  # epochs, and after the last: an evaluation takes almost half as long as an epoch of ROLE + SMT
Task = tuple[str, int]  # a row: method and seed


def demo_config(seed: int, overrides: Iterable[str] = ()) -> Config:
    """configs/demo.yaml with one seed for labels and weights. Few epochs are evaluated, unless more are asked for."""
    chosen = merge(packaged_config("demo"), {"train": {"evaluate_every": EVALUATE_EVERY}})
    seeded = {"labels": {"seed": seed}, "train": {"seed": seed}}
    settings = merge(with_preset(chosen, parse_overrides(overrides)), seeded)
    return resolve(settings, "the demo", methods.section_names())


def demo(
    out: Path,
    seeds: int = 1,
    overrides: Iterable[str] = (),
    listener_of: Callable[[str, int, Config], Listener] | None = None,
    at_once: int | None = None,
) -> Demo:
    """Train all rows on each seed's observed labels; write results.json and report.html under `out`.

    `listener_of` gives a listener for each run, by method, seed and settings. `at_once` is how many rows are trained
    at the same time, each in a process with one thread; 1 trains them here, one after the other (`rows_at_once`).
    """
    words = list(overrides)
    results = Demo(demo_config(0, words))
    at_once = rows_at_once(results.config.train.device) if at_once is None else at_once

    def listen_to(task: Task) -> Listener:
        return listener_of(*task, demo_config(task[1], words)) if listener_of is not None else silent

    train_row = TrainRow(words, out)
    if at_once > 1:
        tasks = [(method, seed) for seed in range(seeds) for method in LONGEST_FIRST]
        rows = side_by_side(train_row, tasks, at_once, listen_to)
    else:
        tasks = [(method, seed) for seed in range(seeds) for method in METHODS]
        rows = {task: train_row(task, listen_to(task)) for task in tasks}
    for seed in range(seeds):
        for method in METHODS:
            results.add(method, rows[method, seed])
    write_atomically(out / "results.json", json.dumps(results.to_json(), indent=1))
    write_atomically(out / "report.html", page(results))
    return results


def rows_at_once(device: str) -> int:
    """As many as torch would use threads on a CPU, where those of one process wait for each other; else 1."""
    alone = launch().count == 1 and choose_device(device).type == "cpu"
    return min(torch.get_num_threads(), len(METHODS)) if alone else 1


@dataclass
class TrainRow:
    """Trains rows of the demo in one process, which prepares each seed's images and features once."""

    words: list[str]
    out: Path
    prepared: tuple[int, SharedParts] | None = None

    def __call__(self, task: Task, listen: Listener) -> Row:
        method, seed = task
        config = demo_config(seed, self.words)
        if self.prepared is None or self.prepared[0] != seed:
            self.prepared = None  # only one seed's features are kept
            processes, data = start(config.train.device), load_data(config)
            heard = listen if processes.first else silent
            self.prepared = seed, SharedParts(data, processes, open_inputs(config, data, processes, listen=heard))
        row = run_method(config, method, self.prepared[1], self.out / "runs" / f"{method}-{seed}", listen)
        listen(RunEnds())
        return row


def run_method(config: Config, method: str, shared: SharedParts, folder: Path, listen: Listener) -> Row:
    """One row of one seed, with the demo's settings for that seed."""
    data = shared.data
    assert data is not None
    head = "cnn" if method in ("an", "role") else "smt"
    words = {"model": {"head": head}, "method": method.removesuffix("-smt")}
    config = resolve(merge(config.model_dump(), words), "the demo", methods.section_names())
    observed = data.observed
    if method == "full":  # the same images with all of their labels
        shared = replace(shared, data=replace(data, observed=data.train.labels))
    run = train(config, folder, listen=listen, shared=shared)
    assert run.experiment is not None
    scores = run.recovered()
    recovered = recovery_metrics(scores, observed.values, data.train.labels.values)
    evaluation = run.summary["evaluation"]
    at = evaluation["at_threshold"]
    measured = (
        evaluation["mAP"], at["OF1"], at["CF1"],
        recovered.average_precision, recovered.precision, recovered.recall,
    )  # fmt: skip
    values = {column: float(value) for column, value in zip(COLUMNS, measured, strict=True)}
    row = Row(values, run.curve, evaluation["per_class"])
    if method == "scob" and config.train.seed == 0:
        row.pictures = gallery(run.experiment, observed, scores)
        row.pointing = pointing_game(run.experiment, observed)
    return row


@torch.no_grad()
def clean_features(experiment: Experiment, rows: NDArray[np.int64]) -> Features:
    """Features of the clean, unflipped views of training rows."""
    source = experiment.source
    pictures = experiment.inputs.feeds["train"].fetch(rows)
    return source.of(source.views.weak(pictures, torch.zeros(len(rows), dtype=torch.bool, device=pictures.device)))[0]


def training_maps(
    experiment: Experiment, rows: NDArray[np.int64], pairs: list[tuple[int, int]], settings: MapSettings
) -> ClassMaps:
    """Maps of (position in `rows`, class) pairs, from the clean views of training rows."""
    e = experiment
    features = clean_features(e, rows)
    device = features[0].device
    positions, classes = torch.tensor(pairs, device=device).T
    e.network.eval()
    with autocast(device, e.source.precision):
        return class_maps(e.network, features, positions, classes, settings)


def observed_maps(experiment: Experiment, rows: NDArray[np.int64], classes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Maps (Eq. 2) of one class per training row, at stage 3, with the run's own settings: (B, h, w)."""
    s = experiment.config.scob
    pairs = [(position, int(c)) for position, c in enumerate(classes)]
    return training_maps(experiment, rows, pairs, MapSettings.of(s)).maps[0].cpu().numpy()


def seen_at(
    experiment: Experiment, row: int, classes: list[int], scores: NDArray[np.float32]
) -> list[NDArray[np.bool_]]:
    """Where the network sees some classes (C,) with their scores in one training image, as `scob explain` shows it.

    A mask (h, w) for each class, empty where there is no clear place.
    """
    heat = training_maps(experiment, np.array([row]), [(0, c) for c in classes], EXPLAINED).heat.cpu().numpy()
    places = places_of(heat, scores)
    return [np.zeros(heat.shape[1:], bool) if place is None else place.parts > 0 for place in places]


def gallery(experiment: Experiment, observed: Labels, scores: NDArray[np.float32]) -> list[Picture]:
    """Training scenes with labels to recover, spread over the training set; hits and misses alike."""
    truth = experiment.data.train.labels.values
    names = observed.classes
    missing = ((truth == PRESENT) & (observed.values == UNKNOWN)).sum(axis=1)
    rows = np.flatnonzero(missing >= 1)
    rows = rows[np.linspace(0, len(rows) - 1, min(GALLERY, len(rows))).astype(int)]
    pictures = []
    for row in rows:
        unknown = observed.values[row] == UNKNOWN
        given = [int(c) for c in np.argsort(-scores[row]) if unknown[c] and scores[row, c] >= 0.5]
        shown = []
        if given:
            for c, mask in zip(given, seen_at(experiment, int(row), given, scores[row, given]), strict=True):
                shown.append((names[c], float(scores[row, c]), bool(truth[row, c] == PRESENT), mask))
        missed = [names[c] for c in np.flatnonzero((truth[row] == PRESENT) & unknown & (scores[row] < 0.5))]
        seen = [names[c] for c in np.flatnonzero(observed.values[row] == PRESENT)]
        pictures.append(Picture(experiment.data.train.images.load(int(row)), seen, shown, missed))
    return pictures


def pointing_game(experiment: Experiment, observed: Labels, images: int = 400) -> dict[str, float]:
    """How often the observed label's map (stage 3) peaks inside the object, and how often by chance (its area)."""
    masks = experiment.data.train.masks
    if masks is None:
        return {}
    rows = np.flatnonzero((observed.values == PRESENT).any(axis=1))[:images]
    classes = (observed.values[rows] == PRESENT).argmax(axis=1)
    hits, areas = [], []
    for start_row in range(0, len(rows), 64):
        part, wanted = rows[start_row : start_row + 64], classes[start_row : start_row + 64]
        heat = observed_maps(experiment, part, wanted)
        for row, c, one in zip(part, wanted, heat, strict=True):
            objects = masks.load(int(row))
            if objects is None or int(c) not in objects.present:
                continue
            mask = objects.present[int(c)]
            y, x = np.unravel_index(one.argmax(), one.shape)
            height, width = mask.shape
            hits.append(mask[int((y + 0.5) / one.shape[0] * height), int((x + 0.5) / one.shape[1] * width)])
            areas.append(mask.mean())
    hit, area = float(np.mean(hits)), float(np.mean(areas))
    return {"inside": hit, "by_chance": area, "ratio": hit / area, "images": float(len(hits))}
