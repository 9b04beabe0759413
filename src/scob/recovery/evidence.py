"""Why a label is suggested: where the model saw it, and the confirmed instances that look most like it.

Nearest instances come from an instance priority tree built from the finished model: for every class the masked features
of the images that are known to show it, the most confident ones kept.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from scob.algorithm.ipt import EMPTY, InstancePriorityTree
from scob.data.split import Images
from scob.inference.explain import pair_maps
from scob.inference.predict import Progress, Scob
from scob.labels import PRESENT
from scob.training.finished_run import RunImages

Floats = NDArray[np.float32]
CAPACITY = 80
TREE_NUMBERS = 1 << 27  # half a gigabyte: with thousands of classes the trees get shallower instead


class Evidence:
    """Masks of (image, class) pairs and their nearest confirmed instances, computed in batches of images."""

    def __init__(self, scob: Scob, batch: int = 16) -> None:
        self.scob, self.batch = scob, batch
        dimension = scob.network.dimension
        capacity = max(4, min(CAPACITY, TREE_NUMBERS // (dimension * (len(scob.classes) + 1))))
        self.capacity = capacity
        self.tree: InstancePriorityTree | None = None
        self.names: tuple[str, ...] = ()

    @torch.no_grad()
    def look(self, images: Images, pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Heat (P, h, w) and unit features (P, E) of the foreground; each image passes the backbone once a batch."""
        wanted: dict[int, list[int]] = {}
        for number, (row, _) in enumerate(pairs):
            wanted.setdefault(row, []).append(number)
        rows = list(wanted)
        heats: dict[int, Tensor] = {}
        vectors: dict[int, Tensor] = {}
        device = self.scob.device
        for start in range(0, len(rows), self.batch):
            group = rows[start : start + self.batch]
            pixels = np.stack([images.load(row, self.scob.size) for row in group])
            features = self.scob.network.backbone(self.scob.prepare(pixels))
            numbers = [n for row in group for n in wanted[row]]
            place = torch.tensor([group.index(pairs[n][0]) for n in numbers], device=device)
            maps = pair_maps(
                self.scob.network, features, place, torch.tensor([pairs[n][1] for n in numbers], device=device)
            )
            for s in range(0, len(numbers), 64):
                part = slice(s, s + 64)
                chosen = (features[0][place[part]], features[1][place[part]])
                keep = (maps.keep[0][part], maps.keep[1][part])
                seen = F.normalize(self.scob.network.embed(chosen, keep).float(), dim=1)
                for n, heat, vector in zip(numbers[part], maps.heat[part], seen, strict=True):
                    heats[n], vectors[n] = heat.cpu(), vector.cpu()
        order = range(len(pairs))
        return torch.stack([heats[n] for n in order]), torch.stack([vectors[n] for n in order])

    def confirm(self, known: RunImages, scores: Floats, wanted: set[int], progress: Progress | None = None) -> None:
        """Fill the tree with the images known to show the `wanted` classes, the most confident `capacity` of each."""
        pairs: list[tuple[int, int]] = []
        for c in sorted(wanted):
            rows = np.flatnonzero(known.observed.values[:, c] == PRESENT)
            best = rows[np.argsort(-scores[rows, c], kind="stable")][: self.capacity]
            pairs += [(int(row), c) for row in best]
        if not pairs:
            return
        self.names = known.observed.images
        # An image may be the witness of several classes, so a node's id is the pair's number, not the image's.
        self.pairs = sorted(pairs)
        self.tree = InstancePriorityTree(
            len(self.scob.classes), self.capacity, self.scob.network.dimension, len(self.pairs)
        )
        for start in range(0, len(self.pairs), self.batch):
            group = self.pairs[start : start + self.batch]
            _, vectors = self.look(known.split.images, group)
            self.tree.insert(
                torch.tensor([c for _, c in group]),
                torch.tensor([float(scores[row, c]) for row, c in group]),
                torch.arange(start, start + len(group)),
                vectors,
            )
            if progress is not None:
                progress(start + len(group), len(self.pairs))

    def nearest(self, c: int, vector: Tensor, image: str, count: int = 3) -> tuple[tuple[str, float], ...]:
        """The confirmed instances of class `c` most like a foreground, by cosine in [0, 1]."""
        if self.tree is None:
            return ()
        ids = self.tree.ids[c]
        alike = torch.where(ids != EMPTY, self.tree.features[c] @ vector, -2.0)
        found: list[tuple[str, float]] = []
        for slot in alike.argsort(descending=True).tolist():
            if int(ids[slot]) == EMPTY or len(found) == count:
                break
            name = self.names[self.pairs[int(ids[slot])][0]]
            if name != image:
                found.append((name, float(alike[slot].clamp(0, 1))))
        return tuple(found)
