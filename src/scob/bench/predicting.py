"""Milliseconds of a prediction, next to the bare backbone measured in the same run."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scob.bench.workload import bench_config, random_data, random_resnet, replayed
from scob.model.fast_network import FastNetwork
from scob.model.features import autocast
from scob.model.fold import fast_copy
from scob.parallel import start
from scob.studies.timing import median_seconds
from scob.training.build import Experiment, build


@torch.no_grad()
def bench_predict(
    device: str = "auto", batches: tuple[int, ...] = (1, 64), size: int = 448, backbone: str = ""
) -> list[dict[str, Any]]:
    """Milliseconds of the whole network and of the bare backbone, each in its fastest form."""
    processes = start(device)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(backbone or random_resnet(Path(folder)), 8, size)
        data = random_data(16, size)
        for batch in batches:
            images = torch.randn(batch, 3, size, size, device=processes.device)
            images = images.contiguous(memory_format=torch.channels_last)
            rows.append({"batch": batch, **measure_prediction(build(config, data, processes), images)})
    return rows


def measure_prediction(experiment: Experiment, images: Tensor) -> dict[str, float]:
    """Times for one batch of images, and how far the fast network's probabilities are from the plain network's."""
    device, precision = images.device, experiment.source.precision
    network = experiment.network.eval()
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    fast, backbone, fast_images = FastNetwork(network, dtype), fast_copy(network.backbone, dtype), images.to(dtype)

    def plain_logits() -> Tensor:
        with autocast(device, precision):
            logits: Tensor = network(images)
        return logits

    def fast_logits() -> Tensor:
        logits: Tensor = fast(fast_images)
        return logits

    network_seconds = _fastest(fast_logits, device)
    backbone_seconds = _fastest(lambda: backbone(fast_images), device)
    difference = (fast_logits().float().sigmoid() - plain_logits().float().sigmoid()).abs().max()
    return {
        "network_ms": round(1000 * network_seconds, 3),
        "backbone_ms": round(1000 * backbone_seconds, 3),
        "ratio": round(network_seconds / backbone_seconds, 3),
        "plain_ms": round(1000 * median_seconds(plain_logits, device), 3),
        "largest_difference": float(difference),
    }


def _fastest(run: Callable[[], object], device: torch.device) -> float:
    """Median seconds of the call as it is or as a CUDA graph, whichever is faster."""
    return min(median_seconds(run, device), median_seconds(replayed(run, device), device))
