"""Time and memory of a step as first the number of images, then the number of classes grows.

Measures every part of a step that depends on either: reading and updating estimator rows, L_class, the tree and the
mask bank, but not the backbone and the head. The tables are real and of full size; only the features are random.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from scob.algorithm.batch_share import BatchShare
from scob.algorithm.estimator import Estimator
from scob.algorithm.ipt import InstancePriorityTree
from scob.algorithm.losses import l_class
from scob.algorithm.masks import MaskBank
from scob.draws import uniform
from scob.errors import UserError
from scob.model.row_tables import RowStorage

GRIDS = ((28, 28), (14, 14))
CAPACITY, DIMENSION = 80, 512
IMAGES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
CLASSES = (20, 80, 312, 1_000, 10_000)


@dataclass(frozen=True)
class Scale:
    """One measured size. Bytes are those of the tables; `per_image` is the bytes each image takes."""

    images: int
    classes: int
    place: str
    step_ms: float
    busy_ms: float
    row_bytes: int
    tree_bytes: int
    per_image: float


class SimulatedStep:
    """The tables of a run of this size and the part of a step that uses them."""

    def __init__(self, images: int, classes: int, batch: int, place: RowStorage) -> None:
        self.images, self.classes, self.batch = images, classes, batch
        keys = torch.arange(images + 1)
        self.observed = torch.zeros(images + 1, classes, dtype=torch.int8)
        own = keys % classes
        self.observed.scatter_(1, own[:, None], 1)
        self.own = own
        self.estimator = Estimator(self.observed, keys, 0, storage=place)
        self.bank = MaskBank(images, GRIDS, None, place)
        self.tree = InstancePriorityTree(classes, CAPACITY, DIMENSION, images)
        self.weight = torch.full((batch,), 1 / batch)

    def __call__(self, number: int) -> Tensor:
        """Step `number` on images spread over all rows."""
        lanes = torch.arange(self.batch) + number * self.batch
        rows = (uniform(lanes, 1)[:, 0].double() * self.images).long()
        rows = torch.unique(rows)
        rows = torch.cat((rows, rows.new_full((self.batch - len(rows),), self.images)))
        labels = torch.where(rows < self.images, self.own[rows], -1)
        logits = uniform(rows, number, self.classes).requires_grad_()
        estimated = self.estimator.rows(rows)
        loss = l_class(logits.sigmoid(), estimated.sigmoid(), self.observed[rows], 1.5, BatchShare(self.weight))
        torch.autograd.backward(loss)
        features = torch.nn.functional.normalize(uniform(rows, number + 1, DIMENSION), dim=1)
        self.tree.insert(labels, logits.detach()[:, 0].sigmoid(), rows, features)
        off = torch.zeros(self.batch, dtype=torch.bool)
        masks = self.bank.load(rows, off)
        self.bank.store(rows, (~masks[0], ~masks[1]), off)
        assert estimated.grad is not None
        self.estimator.move(rows, estimated.grad, 0.01)
        nodes, exist = self.tree.top(1)
        return (nodes * exist[..., None]).sum()

    @property
    def row_bytes(self) -> int:
        """All tables with one row per image: estimates and their moments, masks, labels, the tree's index, keys."""
        tables = (*self.estimator.buffers(), *self.bank.buffers(), self.observed, self.tree.home, self.own)
        return sum(t.nbytes for t in tables)

    @property
    def tree_bytes(self) -> int:
        return sum(t.nbytes for name, t in self.tree.named_buffers() if name != "home")


def measure(sizes: Sequence[tuple[int, int]], batch: int, steps: int, places: Sequence[RowStorage]) -> list[Scale]:
    """Wall time and processor time of a step at each size (images, classes).

    The sizes take turns, step by step, so that changes of the machine's pace affect all of them alike and none finds
    its rows in the cache. Reports the lower quartile of `steps` steps on one thread, after five to warm up.
    """
    simulated = [SimulatedStep(*size, batch, place) for size, place in zip(sizes, places, strict=True)]
    clock: list[list[float]] = [[] for _ in simulated]
    spent: list[list[float]] = [[] for _ in simulated]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for number in range(steps + 5):
            # In a different order each time: the size that follows the largest finds an empty cache.
            for turn in Random(number).sample(range(len(simulated)), len(simulated)):
                began, began_spent = time.perf_counter(), time.thread_time()
                simulated[turn](number)
                clock[turn].append(time.perf_counter() - began)
                spent[turn].append(time.thread_time() - began_spent)
    finally:
        torch.set_num_threads(threads)

    def quartile(times: list[float]) -> float:
        return 1000 * sorted(times[5:])[steps // 4]

    return [
        Scale(
            step.images, step.classes, place.kind, quartile(wall), quartile(busy), step.row_bytes, step.tree_bytes,
            step.row_bytes / (step.images + 1),
        )
        for step, place, wall, busy in zip(simulated, places, clock, spent, strict=True)
    ]  # fmt: skip


def bench_scale(
    images: Sequence[int] = IMAGES,
    classes: Sequence[int] = CLASSES,
    batch: int = 64,
    steps: int = 50,
    folder: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, list[Scale]]:
    """Grow the images at the smallest number of classes, then the classes at the smallest number of images.

    Rows that would fill more than half of the free host memory go into a mapped file in `folder` (by default a
    temporary one).
    """
    if not images or not classes:
        raise UserError("give at least one number of images and at least one number of classes")
    plan = {"images": [(n, min(classes)) for n in images], "classes": [(min(images), c) for c in classes]}
    measured = {}
    for what, sizes in plan.items():
        if progress is not None:
            progress(what)
        left = free_memory() / 2
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            places = []
            for count, kinds in sizes:
                need = count * (13 * kinds + 143)
                kind = "host" if need < left else "disk"
                left -= need if kind == "host" else 0
                places.append(RowStorage(kind, Path(temporary) / f"{count}-{kinds}"))
            measured[what] = measure(sizes, batch, steps, places)
    return measured


def free_memory() -> int:
    """Bytes of available host memory; 4 GiB if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 4 << 30


def growth(sizes: Sequence[Scale]) -> float:
    """Processor time of the slowest step relative to the first, smallest size."""
    return max(s.busy_ms for s in sizes) / sizes[0].busy_ms
