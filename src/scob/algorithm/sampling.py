"""Which images each step sees: an order per epoch and, per image, one observed label and one class positive.

Everything is drawn on the host before the step, by seed, epoch and image, so that images can be fetched ahead and a
resumed or distributed run sees the same batches. Several processes share each global batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.draws import mix, permutation, seed_key
from scob.labels import PRESENT, Labels

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PlannedBatch:
    """A process's share of one step, on the host. Padding has the row N (one past the last image) and weight 0."""

    rows: Rows
    keys: Rows
    chosen: Rows
    positives: Rows
    weight: NDArray[np.float32]
    images: int


@dataclass
class Batch:
    """A planned batch on the device. `keys` already include seed and epoch; `images` are uint8, if they are needed."""

    rows: Tensor
    keys: Tensor
    chosen: Tensor
    positives: Tensor
    weight: Tensor
    epoch: int
    step: int
    images: Tensor | None = None
    positive_images: Tensor | None = None

    def first(self, count: int) -> "Batch":
        """The first images of the batch, or all of them if there are fewer."""
        tensors = ("rows", "keys", "chosen", "positives", "weight", "images", "positive_images")
        values = {name: getattr(self, name) for name in tensors}
        return replace(self, **{name: value[:count] for name, value in values.items() if value is not None})


class Plan:
    """The batches of a training run."""

    def __init__(
        self, labels: Labels, batch: int, seed: int, rank: int = 0, processes: int = 1, pad: bool = False
    ) -> None:
        """`pad` fills the last batch up with padding, for code that needs a fixed shape."""
        self.batch, self.seed, self.rank, self.processes, self.pad = batch, seed, rank, processes, pad
        self.present = labels.values == PRESENT
        self.keys = labels.keys
        self.count = len(labels)
        pairs = np.argwhere(self.present.T)  # sorted by class
        self.members = pairs[:, 1]
        counts = self.present.sum(axis=0)
        self.starts, self.sizes = np.cumsum(counts) - counts, counts

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        return -(-self.count // self.batch)

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[PlannedBatch]:
        """The batches of an epoch, without the first `skip`."""
        order = permutation(self.count, self.seed, epoch, "order")
        for step in range(skip, self.steps):
            yield self._share(order[step * self.batch : (step + 1) * self.batch], epoch)

    def _share(self, global_rows: Rows, epoch: int) -> PlannedBatch:
        """This process's part of a global batch. The parts of all processes have the same length."""
        length = -(-(self.batch if self.pad else len(global_rows)) // self.processes)
        rows = np.full(length, self.count, dtype=np.int64)
        own_rows = global_rows[self.rank :: self.processes]
        rows[: len(own_rows)] = own_rows
        real = rows < self.count
        keys = mix(np.where(real, self.keys[np.minimum(rows, self.count - 1)], 0), seed_key(self.seed, epoch)).view(
            np.int64
        )
        chosen = self._choose(rows, keys, real)
        weight = np.where(real, np.float32(1 / len(global_rows)), np.float32(0))
        return PlannedBatch(rows, keys, chosen, self._positives(rows, chosen, keys), weight, len(global_rows))

    def _choose(self, rows: Rows, keys: Rows, real: NDArray[np.bool_]) -> Rows:
        """One observed positive of each image, drawn at random; -1 if it has none."""
        present = self.present[np.minimum(rows, self.count - 1)] & real[:, None]
        if not present.shape[1]:
            return np.full(len(rows), -1, dtype=np.int64)
        lanes = np.arange(present.shape[1], dtype=np.int64)[None, :]
        draw = mix(mix(keys, seed_key("choose")).view(np.int64)[:, None] ^ lanes, seed_key("lane")) | np.uint64(1)
        drawn_class = np.where(present, draw, np.uint64(0)).argmax(axis=1)
        return np.where(present.any(axis=1), drawn_class, -1).astype(np.int64)

    def _positives(self, rows: Rows, chosen: Rows, keys: Rows) -> Rows:
        """Another image with the same observed label (Eq. 7), all equally likely; the image itself if it is alone."""
        if not len(self.members):
            return rows
        c = np.maximum(chosen, 0)
        others = self.sizes[c] - 1
        drawn = (mix(keys, seed_key("positive")) % np.maximum(others, 1).astype(np.uint64)).astype(np.int64)
        position = self.starts[c] + drawn
        position += self.members[np.minimum(position, len(self.members) - 1)] >= rows  # members ascend: skip the image
        partner = self.members[np.minimum(position, len(self.members) - 1)]
        return np.where((chosen < 0) | (others < 1), rows, partner).astype(np.int64)


def to_device(planned: PlannedBatch, epoch: int, step: int, device: torch.device) -> Batch:
    """One transfer for the integers of a batch, one for its weights."""
    integers = torch.from_numpy(np.stack((planned.rows, planned.keys, planned.chosen, planned.positives)))
    weight = torch.from_numpy(planned.weight)
    if device.type == "cuda":
        integers, weight = integers.pin_memory(), weight.pin_memory()
    rows, keys, chosen, positives = integers.to(device, non_blocking=True).unbind(0)
    return Batch(rows, keys, chosen, positives, weight.to(device, non_blocking=True), epoch, step)
