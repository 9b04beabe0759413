"""Images per second of training, next to the backbone's forward pass measured in the same run."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from scob.bench.workload import bench_config, random_data, random_resnet, replayed
from scob.config import Config
from scob.parallel import Processes, start
from scob.studies.timing import median_seconds, synchronise
from scob.training.build import build
from scob.training.loop import Training
from scob.training.run_data import Data
from scob.training.run_folder import RunFolder


def time_training(config: Config, data: Data, processes: Processes, repeats: int) -> float:
    """Images per second of complete training steps, augmentation included."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = build(config, data, processes, folder=Path(folder))
        training = Training(experiment, RunFolder(Path(folder)))
        experiment.method.train()
        epoch = 0
        batches = training.batches(epoch, 0)

        def one_step() -> None:
            nonlocal epoch, batches
            batch = next(batches, None)
            if batch is None:
                epoch += 1
                batches = training.batches(epoch, 0)
                batch = next(batches)
            training.iterate(batch)

        for _ in range(6):
            one_step()
        synchronise(processes.device)
        began = time.perf_counter()
        for _ in range(repeats):
            one_step()
        synchronise(processes.device)
        seconds = time.perf_counter() - began
        training.close()
    return repeats * config.train.batch / seconds


def bench_train(
    device: str = "auto",
    batches: tuple[int, ...] = (8, 64),
    size: int = 448,
    backbone: str = "",
    repeats: int = 30,
) -> list[dict[str, Any]]:
    """Images per second of Scob with class positives: plain, as a CUDA graph, with kept features, and with both."""
    processes = start(device)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        name = backbone or random_resnet(Path(folder))
        for batch in batches:
            data = random_data(max(2 * batch, 128) // batch * batch, size)
            forward = _forward_seconds(bench_config(name, batch, size), data, processes)
            for label, train in _variants(processes.device).items():
                rate = time_training(bench_config(name, batch, size, **train), data, processes, repeats)
                rows.append(
                    {
                        "batch": batch,
                        "step": label,
                        "images_per_second": round(rate, 1),
                        "milliseconds": round(1000 * batch / rate, 2),
                        "backbone_forward_ms": round(1000 * forward, 2),
                        "ratio_to_forward": round(batch / rate / forward, 2),
                    }
                )
                if processes.device.type == "cuda":
                    torch.cuda.empty_cache()
    return rows


def _forward_seconds(config: Config, data: Data, processes: Processes) -> float:
    """Seconds of the backbone's forward pass over one batch."""
    experiment = build(config, data, processes)
    images = torch.randn(config.train.batch, 3, config.data.size, config.data.size, device=processes.device)
    forward = replayed(lambda: experiment.source.of(images), processes.device)
    return median_seconds(forward, processes.device)


def _variants(device: torch.device) -> dict[str, dict[str, Any]]:
    """The training settings to compare; CUDA graphs need a GPU."""
    graph, cached = {"compile": True}, {"feature_cache": "device"}
    if device.type != "cuda":
        return {"plain": {}, "kept features": cached}
    return {"plain": {}, "graph": graph, "kept features": cached, "graph, kept features": {**graph, **cached}}
