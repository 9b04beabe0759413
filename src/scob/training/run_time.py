"""How long a run will take, from a few steps of a throw-away network on a few of the run's own images."""

import itertools
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from scob import methods
from scob.config import Config
from scob.errors import UserError
from scob.model.load_backbone import load_backbone
from scob.parallel import Processes, choose_device
from scob.training.build import Experiment, build
from scob.training.events import Listener, Working, silent
from scob.training.execution import plan_inputs
from scob.training.inputs import CALIBRATION_IMAGES
from scob.training.loop import Training
from scob.training.out_of_memory import StepTooLarge, is_out_of_memory, release
from scob.training.run_data import Data
from scob.training.run_folder import RunFolder
from scob.training.scoring import row_batches

ENOUGH_SECONDS, ENOUGH_STEPS = 4.0, 8  # on a slow machine, one step of the phase with the most epochs must do
LEAST_SECONDS = 1.0  # for each phase on a fast machine: a few short steps say little if anything else is running
TIMING = "timing a few steps"


@dataclass(frozen=True)
class Costs:
    """Measured seconds: to decode an image, to compute its features, to score those, and of a step in each phase."""

    decode: float
    features: float
    score: float
    steps: dict[str, float]


def estimate_seconds(config: Config, data: Data, listen: Listener = silent) -> float | None:
    """How many seconds the run will take on this machine, in one process.

    None if the timed steps do not fit into memory: the run itself takes steps down.
    """
    processes = Processes()
    processes.device = choose_device(config.train.device)
    listen(Working(TIMING, 0, ENOUGH_STEPS, "steps"))
    try:
        with tempfile.TemporaryDirectory() as folder:
            few = sample(data, config.train.batch)
            experiment = build(as_executed(config, data, processes), few, processes, folder=Path(folder))
            try:
                costs = measure_costs(experiment, Path(folder), listen)
            finally:
                experiment.inputs.close()
    except (RuntimeError, MemoryError, UserError) as error:
        if not isinstance(error, StepTooLarge) and not is_out_of_memory(error):
            raise
    else:
        return total_seconds(experiment, data, costs)
    release()
    return None


def as_executed(config: Config, data: Data, processes: Processes) -> Config:
    """The settings for the timed steps: what is chosen by what is free, as the images of the whole run will have it."""
    config = methods.class_for(config).adjust(config)
    backbone = load_backbone(config.model.backbone, config.model.freeze)
    images = {name: len(split) for name, split in data.splits.items()}
    plan, _ = plan_inputs(config, images, processes, (backbone, backbone.grids(config.data.size)))
    compiled = config.train.compile if plan.resident else False
    chosen = {"feature_cache": plan.features, "compile": compiled, "tracker": "none"}
    plain = config.data.model_copy(update={"workers": 0, "cache": ""})
    return config.model_copy(update={"data": plain, "train": config.train.model_copy(update=chosen)})


def sample(data: Data, batch: int) -> Data:
    """One batch of the training images, from all parts of the data, and nothing to evaluate."""
    rows = np.unique(np.linspace(0, len(data.train) - 1, batch).astype(np.int64))
    observed = data.observed.select(rows)
    return replace(
        data, train=data.train.select(rows), observed=observed, drawn=observed,
        holdout=None, holdout_observed=None, evaluate=None,
    )  # fmt: skip


@torch.no_grad()
def measure_costs(e: Experiment, folder: Path, listen: Listener = silent) -> Costs:
    """Time the parts of a run on the few images of the experiment."""
    device, images = e.processes.device, len(e.data.train)
    feed, source = e.inputs.feeds["train"], e.source
    began = time.perf_counter()
    pixels = torch.cat(list(feed.iterate(row_batches(images, 64))))
    decode = (_now(device) - began) / images
    count = min(images, 16)
    plain = torch.zeros(count, dtype=torch.bool, device=device)
    views = source.views.weak(pixels[:count], plain)
    began = _now(device)
    [features] = source.of(views)
    forward = (_now(device) - began) / count
    began = _now(device)
    e.network.eval()
    e.network.classify(features)
    score = (_now(device) - began) / count
    training = Training(e, RunFolder(folder))
    with torch.enable_grad():
        steps = _step_seconds(training, listen)
    training.close()
    return Costs(decode, forward, score, steps)


def _step_seconds(training: Training, listen: Listener) -> dict[str, float]:
    """The time of a step in each phase. Without time for all of them, the others count as the longest phase."""
    e = training.experiment
    phases = Counter(e.method.phase(epoch) for epoch in range(e.config.train.epochs))
    longest = phases.most_common(1)[0][0]
    until = time.perf_counter() + ENOUGH_SECONDS
    seconds: dict[str, float] = {}
    for phase, _ in phases.most_common():
        if seconds and time.perf_counter() > until:
            break
        epoch = next(n for n in range(e.config.train.epochs) if e.method.phase(n) == phase)
        e.method.train()
        e.method.begin_epoch(epoch)
        timed: list[float] = []
        for batch in itertools.chain.from_iterable(training.batches(epoch, 0) for _ in itertools.count()):
            began = _now(e.processes.device)
            training.iterate(batch)
            timed.append(_now(e.processes.device) - began)
            listen(Working(TIMING, min(len(timed), ENOUGH_STEPS), ENOUGH_STEPS, "steps"))
            enough = len(timed) >= ENOUGH_STEPS and sum(timed) >= LEAST_SECONDS
            if enough or time.perf_counter() > until:
                break
        seconds[phase] = fmean(timed[len(timed) // 2 :])  # the first ones warm up, or capture a graph
    return {phase: seconds.get(phase, seconds[longest]) for phase in phases}


def total_seconds(e: Experiment, data: Data, costs: Costs) -> float:
    """Put the parts together: calibration, features that are cached, all steps, all evaluations."""
    t, cached = e.config.train, e.source.cache is not None
    on_gpu = e.processes.device.type == "cuda"
    calibrates = e.config.model.calibrate_bn and not e.inputs.backbone.keeps_statistics
    scored = sum(len(split) for split in (data.holdout, data.evaluate) if split is not None)
    decode = costs.decode / max(1, min(t.batch, os.cpu_count() or 1))  # by several workers, or beside the steps
    setup = min(len(data.train), CALIBRATION_IMAGES) * (decode + costs.features) if calibrates else 0.0
    setup += (len(data.train) + scored) * (decode + 2 * costs.features) if cached else 0.0
    epoch_steps = -(-len(data.train) // t.batch)
    fetch = t.batch * decode if e.method.wants_images else 0.0
    training = sum(
        epoch_steps * (max(step, fetch) if on_gpu else step + fetch)
        for step in (costs.steps[e.method.phase(epoch)] for epoch in range(t.epochs))
    )
    evaluations = -(-t.epochs // t.evaluate_every) if t.evaluate_every else 1  # the last epoch always has one
    each = costs.score * (2 if t.flip_test else 1)
    each += 0.0 if cached else decode + costs.features * (2 if t.flip_test else 1)
    chooses = {"holdout": data.holdout, "best-on-test": data.evaluate}.get(t.select) is not None
    linear, finishes = e.network.linear is not None, e.method.finishes()
    again = {"train"} if linear else set()
    again |= {data.told_at_the_end} if finishes else set()
    if data.evaluate is not None and (chooses or linear or finishes):  # the model need not be that of the last epoch
        again |= {"evaluate"}
    at_the_end = sum(len(data.splits[name]) for name in again)
    return setup + training + (evaluations * scored + at_the_end) * each


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
