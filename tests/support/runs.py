"""Stepping an experiment by hand, and reading and comparing what runs leave."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor


def trained_weights(run: Path) -> dict[str, Tensor]:
    """The weights of a finished run's model folder."""
    return load_file(run / "model" / "model.safetensors")


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal names and equal bits."""
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def differing(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    """The names whose bits differ."""
    return [k for k in a if k not in b or not torch.equal(a[k], b[k])]


def logged(run: Path, name: str) -> list[float]:
    """A named loss, log line by log line."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [r[name] for r in records if r["kind"] == "step"]


def batches_of(experiment: Any, epoch: int) -> Iterator[Any]:
    """The batches of an epoch with their images, as the loop would make them."""
    from scob.algorithm.sampling import to_device

    e = experiment
    for number, planned in enumerate(e.plan.epoch(epoch)):
        batch = to_device(planned, epoch, epoch * e.plan.steps + number, e.processes.device)
        fetch, last = e.inputs.feeds["train"].fetch, e.plan.count - 1  # padding fetches any image
        batch.images = fetch(np.minimum(planned.rows, last))
        batch.positive_images = fetch(np.minimum(planned.positives, last))
        yield batch


def first_batch(experiment: Any, epoch: int = 0) -> Any:
    return next(iter(batches_of(experiment, epoch)))


def step_epoch(experiment: Any, epoch: int) -> None:
    """One epoch of steps."""
    experiment.method.train()
    experiment.method.begin_epoch(epoch)
    for batch in batches_of(experiment, epoch):
        torch.manual_seed(batch.step)
        experiment.optimiser.begin(batch.step)
        experiment.method.step(batch, experiment.optimiser)
