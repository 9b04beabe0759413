"""What one training step costs: its time, its passes through the backbone, its synchronisations with the device."""

import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from scob.algorithm.sampling import Batch, to_device
from scob.bench.workload import bench_config, random_data, random_resnet
from scob.parallel import start
from scob.studies.timing import median_seconds
from scob.training.build import Experiment, build

# On a GPU, each of these operations makes the host wait for a value or a shape.
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "aten.equal")
ROOT = Path(__file__).parents[1]
# Functions that choose images or cells by value, on the CPU only.
HOST_ONLY = (
    "_coloured",
    "pack_visible",
    "_in_two_groups",
    "few_or_many",
    "rows_to_compute",
    "_keep_winners",
    "look_up",
)


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that would make the host wait for a GPU, on any device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Not counted: Adam's counters, which are in host memory, and what the functions in HOST_ONLY do themselves.
        name = str(function)
        indices = args[1] if name.startswith("aten.index") and isinstance(args[1], list | tuple) else ()
        by_mask = any(isinstance(i, Tensor) and i.dtype == torch.bool for i in indices)  # its size is counted first
        if by_mask or any(word in name for word in WAITS):
            frames = traceback.extract_stack(limit=16)
            ours = [f.name for f in frames if Path(f.filename).is_relative_to(ROOT) and f.filename != __file__]
            if not any("torch/optim" in f.filename for f in frames) and (not ours or ours[-1] not in HOST_ONLY):
                self.operations.append(name)
        return function(*args, **(kwargs or {}))


def count_waits(run: Callable[[], object], device: torch.device) -> int:
    """How often `run` synchronises: reported by PyTorch on a GPU, counted by operation elsewhere."""
    if device.type != "cuda":
        with Waits() as watch:
            run()
        return len(watch.operations)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(w.message) for w in caught)


def bench_step(
    device: str = "auto",
    batch: int = 8,
    size: int = 448,
    backbone: str = "",
    repeats: int = 10,
) -> list[dict[str, Any]]:
    """One iteration of Alg. 1 under several settings: time, backbone forwards and backwards, synchronisations."""
    processes = start(device)
    variants: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("class positives", {}, {}),
        ("self positives", {"positive": "self"}, {}),
        ("class positives, kept features", {}, {"feature_cache": "device"}),
        ("no contrast (ROLE)", {"contrast": "none"}, {}),
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        name = backbone or random_resnet(Path(folder))
        data = random_data(max(4, 64 // batch) * batch, size)
        for label, method, train in variants:
            config = bench_config(name, batch, size, device=device, **train)
            config = config.model_copy(update={"scob": config.scob.model_copy(update=method)})
            rows.append({"step": label, "batch": batch, **measure_step(build(config, data, processes), repeats)})
    return rows


def measure_step(experiment: Experiment, repeats: int) -> dict[str, Any]:
    """Counts and time of one step whose images are already on the device."""
    e, device = experiment, experiment.processes.device
    e.method.train()
    e.method.begin_epoch(0)
    batches = [with_images(e, number) for number in range(e.plan.steps)]
    upcoming = iter(batches * (repeats + 10))
    e.method.step(next(upcoming), e.optimiser)  # the first step creates Adam's state and the constants of the views
    images, backwards = [0], [0]

    def forward(module: Any, inputs: tuple[Tensor, ...], maps: Any) -> None:
        images[0] += len(inputs[0])
        for feature in maps:
            if feature.requires_grad:
                feature.register_hook(lambda gradient: backwards.__setitem__(0, backwards[0] + 1))

    backbone = e.source.fast or e.network.backbone
    with backbone.register_forward_hook(forward):
        batch = next(upcoming)
        waits = count_waits(lambda: e.method.step(batch, e.optimiser), device)
    seconds = median_seconds(lambda: e.method.step(next(upcoming), e.optimiser), device, repeats, 2)
    return {
        "backbone_forwards": images[0] / len(batch.rows),
        "backbone_backwards": backwards[0],
        "synchronisations": waits,
        "milliseconds": round(1000 * seconds, 2),
    }


def with_images(experiment: Experiment, number: int) -> Batch:
    """Batch `number` of the first epoch, with its images."""
    e = experiment
    planned = next(e.plan.epoch(0, skip=number))
    batch = to_device(planned, 0, number, e.processes.device)
    if e.method.wants_images:
        batch.images = e.inputs.feeds["train"].fetch(np.minimum(planned.rows, e.plan.count - 1))
        if e.method.needs_positives:
            batch.positive_images = e.inputs.feeds["train"].fetch(planned.positives)
    return batch
