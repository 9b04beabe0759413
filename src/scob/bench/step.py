"""What the parts of a step cost: the tree by capacity and classes; a step's forwards and synchronisations, counted."""

import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from scob.algorithm.ipt import InstancePriorityTree, by_score_then_age
from scob.algorithm.sampling import Batch, to_device
from scob.bench.speed import median_seconds, random_data, random_resnet, settings
from scob.parallel import start
from scob.training.build import Experiment, build

Row = dict[str, Any]
CAPACITIES = (80, 800, 8000)
CLASSES = (20, 80, 1000)
# On a device, each of these makes the host wait for a value or a shape.
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "aten.equal")
ROOT = Path(__file__).parents[1]
HOST_ONLY = ("_coloured", "_leave_hidden_out")  # these choose images or cells by value, where that costs nothing


def quiet(row: Row) -> None:
    """A report nobody reads."""


def bench_ipt(
    device: str = "auto",
    capacities: Sequence[int] = CAPACITIES,
    classes: Sequence[int] = CLASSES,
    batch: int = 8,
    count: int = 1,
    dimension: int = 512,
    repeats: int = 20,
    memory: float = 2e9,
    report: Callable[[Row], None] = quiet,
) -> list[Row]:
    """Milliseconds to insert a batch into full trees and to take the `count` best of every class.

    A size whose features need more than `memory` bytes is measured with a smaller dimension, which is named.
    """
    where = start(device).device
    rows = []
    for nodes in capacities:
        for number in classes:
            width = min(dimension, max(1, int(memory / (4 * nodes * (number + 1)))))
            tree = full_tree(number, nodes, width, where)
            arrivals = newcomers(tree, batch, 4 * repeats)
            turn = iter(arrivals * 2)
            insert = median_seconds(lambda t=tree, a=turn: t.insert(*next(a)), where, repeats)  # type: ignore[misc]
            top = median_seconds(lambda t=tree: t.top(count), where, repeats)  # type: ignore[misc]
            row = {
                "classes": number,
                "capacity": nodes,
                "dimension": width,
                "insert_ms": round(1000 * insert, 3),
                "top_ms": round(1000 * top, 3),
            }
            rows.append(row)
            report(row)
            del tree, arrivals, turn
    return rows


def full_tree(classes: int, capacity: int, dimension: int, device: torch.device) -> InstancePriorityTree:
    """Every class full of nodes with random scores."""
    tree = InstancePriorityTree(classes, capacity, dimension, 2 * classes * capacity, device)
    slots = torch.arange(classes * capacity, device=device)
    scores = torch.rand(len(slots), generator=torch.Generator().manual_seed(0)).to(device)
    tree.scores[:-1] = scores.view(classes, capacity)
    tree.priority[:-1] = by_score_then_age(scores, slots).view(classes, capacity)
    tree.ids[:-1] = slots.view(classes, capacity)
    tree.home[: len(slots)] = slots
    tree.inserted += len(slots)
    return tree


def newcomers(tree: InstancePriorityTree, batch: int, count: int) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Batches of images, half of them revisits, in classes drawn at random."""
    draw, device = torch.Generator().manual_seed(1), tree.scores.device
    made = []
    for _ in range(count):
        # Apart by a fixed stride from a random start: no image twice in a batch.
        images = 2 * tree.classes * tree.capacity
        ids = (torch.randint(images, (1,), generator=draw) + torch.arange(batch) * (images // batch)) % images
        made.append(
            (
                torch.randint(tree.classes, (len(ids),), generator=draw).to(device),
                torch.rand(len(ids), generator=draw).to(device),
                ids.to(device),
                torch.zeros(len(ids), tree.features.shape[2], device=device),
            )
        )
    return made


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that would make the host wait for a device, on any device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Adam's counters live in host memory; what HOST_ONLY asks for by itself is not asked of a device.
        name = str(function)
        indices = args[1] if name.startswith("aten.index") and isinstance(args[1], list | tuple) else ()
        by_mask = any(isinstance(i, Tensor) and i.dtype == torch.bool for i in indices)  # which must be counted first
        if by_mask or any(word in name for word in WAITS):
            frames = traceback.extract_stack(limit=16)
            ours = [f.name for f in frames if Path(f.filename).is_relative_to(ROOT) and f.filename != __file__]
            if not any("torch/optim" in f.filename for f in frames) and (not ours or ours[-1] not in HOST_ONLY):
                self.found.append(name)
        return function(*args, **(kwargs or {}))


def count_waits(run: Callable[[], object], device: torch.device) -> int:
    """Synchronisations of `run`: reported by the driver on a GPU, counted by operation elsewhere."""
    if device.type != "cuda":
        with Waits() as watch:
            run()
        return len(watch.found)
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
    report: Callable[[Row], None] = quiet,
) -> list[Row]:
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
            config = settings(name, batch, size, device=device, **train)
            config = config.model_copy(update={"scob": config.scob.model_copy(update=method)})
            rows.append({"step": label, "batch": batch, **measure_step(build(config, data, processes), repeats)})
            report(rows[-1])
    return rows


def measure_step(experiment: Experiment, repeats: int) -> Row:
    """Counts and time of one step, its images already on the device."""
    e, device = experiment, experiment.processes.device
    e.method.train()
    e.method.begin_epoch(0)
    batches = [with_images(e, number) for number in range(e.plan.steps)]
    turn = iter(batches * (repeats + 10))
    e.method.step(next(turn), e.optimiser)  # Adam's state and the constants of the views are made once
    images, backwards = [0], [0]

    def forward(module: Any, inputs: tuple[Tensor, ...], maps: Any) -> None:
        images[0] += len(inputs[0])
        for feature in maps:
            if feature.requires_grad:
                feature.register_hook(lambda gradient: backwards.__setitem__(0, backwards[0] + 1))

    seen = e.source.fast or e.network.backbone
    with seen.register_forward_hook(forward):
        batch = next(turn)
        waits = count_waits(lambda: e.method.step(batch, e.optimiser), device)
    return {
        "backbone_forwards": images[0] / len(batch.rows),
        "backbone_backwards": backwards[0],
        "synchronisations": waits,
        "milliseconds": round(
            1000 * median_seconds(lambda: e.method.step(next(turn), e.optimiser), device, repeats, 2), 2
        ),
    }


def with_images(experiment: Experiment, number: int) -> Batch:
    """A batch of the first epoch with its images."""
    e = experiment
    planned = next(e.plan.epoch(0, skip=number))
    batch = to_device(planned, 0, number, e.processes.device)
    if e.method.wants_images:
        batch.images = e.inputs.feeds["train"].fetch(np.minimum(planned.rows, e.plan.count - 1))
        if e.method.needs_positives:
            batch.positive_images = e.inputs.feeds["train"].fetch(planned.positives)
    return batch
