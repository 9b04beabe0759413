"""Milliseconds of the instance priority tree, by its capacity and the number of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scob.algorithm.ipt import InstancePriorityTree, by_score_then_age
from scob.parallel import start
from scob.studies.timing import median_seconds


@dataclass(frozen=True)
class TreeBench:
    """Which trees to measure, and with what: `batch` images inserted, the `count` best nodes of each class taken.

    A tree whose features need more than `memory` bytes is measured with a smaller dimension, which its row states.
    """

    capacities: Sequence[int] = (80, 800, 8000)
    classes: Sequence[int] = (20, 80, 1000)
    batch: int = 8
    count: int = 1
    dimension: int = 512
    repeats: int = 20
    memory: float = 2e9


def bench_ipt(device: str = "auto", bench: TreeBench | None = None) -> list[dict[str, Any]]:
    """Milliseconds to insert a batch into full trees and to take the best nodes of every class."""
    bench = bench or TreeBench()
    target = start(device).device
    rows = []
    for capacity in bench.capacities:
        for classes in bench.classes:
            dimension = min(bench.dimension, max(1, int(bench.memory / (4 * capacity * (classes + 1)))))
            tree = full_tree(classes, capacity, dimension, target)
            rows.append({"classes": classes, "capacity": capacity, "dimension": dimension, **measure_tree(tree, bench)})
            del tree
    return rows


def measure_tree(tree: InstancePriorityTree, bench: TreeBench) -> dict[str, float]:
    """Milliseconds of one insertion and of one look at the best nodes."""
    device = tree.scores.device
    batches = iter(newcomers(tree, bench.batch, 4 * bench.repeats) * 2)
    insert = median_seconds(lambda: tree.insert(*next(batches)), device, bench.repeats)
    top = median_seconds(lambda: tree.top(bench.count), device, bench.repeats)
    return {"insert_ms": round(1000 * insert, 3), "top_ms": round(1000 * top, 3)}


def full_tree(classes: int, capacity: int, dimension: int, device: torch.device) -> InstancePriorityTree:
    """A tree in which every class is full of nodes with random scores."""
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
    """Batches of (classes, scores, ids, features) to insert; half of the images are in the tree already."""
    draw, device = torch.Generator().manual_seed(1), tree.scores.device
    images = 2 * tree.classes * tree.capacity
    batches = []
    for _ in range(count):
        # A fixed stride from a random start: no image occurs twice in a batch.
        ids = (torch.randint(images, (1,), generator=draw) + torch.arange(batch) * (images // batch)) % images
        batches.append(
            (
                torch.randint(tree.classes, (len(ids),), generator=draw).to(device),
                torch.rand(len(ids), generator=draw).to(device),
                ids.to(device),
                torch.zeros(len(ids), tree.features.shape[2], device=device),
            )
        )
    return batches
