"""The evidence for a suggested label: where the model sees it, and the confirmed images that look most like it.

The nearest confirmed instances come from an instance priority tree filled by the finished model: for each class, the
masked features of the most confident images known to show it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from scob.algorithm.ipt import EMPTY, InstancePriorityTree, fitting_capacity
from scob.data.progress import Progress
from scob.data.split import Images
from scob.inference.class_maps import EXPLAINED, PAIRS
from scob.inference.locate import locate, views_of
from scob.inference.model import Scob
from scob.inference.parts import Place
from scob.inference.scoring import Floats
from scob.labels import PRESENT
from scob.recovery.images import ScoredImages

Pairs = Sequence[tuple[int, int]]  # (row, class)


@torch.no_grad()
def foregrounds(
    scob: Scob, images: Images, scores: Floats, pairs: Pairs, batch: int = 16
) -> tuple[list[Place | None], Tensor]:
    """The place and the unit feature (P, E) of each pair's foreground, from images and their scores (N, L).

    The backbone sees each image once. Pairs of one image compete for its cells: ask for them together.
    """
    pairs_of_row: dict[int, list[int]] = {}
    for number, (row, _) in enumerate(pairs):
        pairs_of_row.setdefault(row, []).append(number)
    rows = list(pairs_of_row)
    places: list[Place | None] = [None] * len(pairs)
    vectors = torch.zeros(len(pairs), scob.network.dimension)
    for start in range(0, len(rows), batch):
        group = rows[start : start + batch]
        views = views_of(scob, np.stack([images.load(row, scob.size) for row in group]))
        asked = [[pairs[n][1] for n in pairs_of_row[row]] for row in group]
        located = locate(scob, views, scores[group], asked, EXPLAINED)
        numbers = [n for row in group for n in pairs_of_row[row]]
        positions = torch.tensor([group.index(pairs[n][0]) for n in numbers], device=scob.device)
        for n, place in zip(numbers, located.places, strict=True):
            places[n] = place
        for first in range(0, len(numbers), PAIRS):
            part = slice(first, first + PAIRS)
            selected = (views.plain[0][positions[part]], views.plain[1][positions[part]])
            masks = (located.masks[0][part], located.masks[1][part])
            embedded = F.normalize(scob.network.embed(selected, masks).float(), dim=1)
            vectors[torch.tensor(numbers[part])] = embedded.cpu()
    return places, vectors


@dataclass(frozen=True)
class ConfirmedInstances:
    """Features of confirmed instances of each class. Node `i` of the tree belongs to the image `names[i]`."""

    tree: InstancePriorityTree
    names: tuple[str, ...]

    @classmethod
    def gather(
        cls,
        scob: Scob,
        known: ScoredImages,
        classes: Collection[int],
        batch: int = 16,
        progress: Progress | None = None,
    ) -> "ConfirmedInstances | None":
        """The images known to show some classes, the most confident of each; None if there are no such images."""
        capacity = fitting_capacity(len(scob.classes), scob.network.dimension)
        pairs: list[tuple[int, int]] = []
        for c in sorted(classes):
            rows = np.flatnonzero(known.observed.values[:, c] == PRESENT)
            best = rows[np.argsort(-known.scores[rows, c], kind="stable")][:capacity]
            pairs += [(int(row), c) for row in best]
        if not pairs:
            return None
        # An image may confirm several classes, so a node's id is the number of the pair, not of the image.
        pairs.sort()
        tree = InstancePriorityTree(len(scob.classes), capacity, scob.network.dimension, len(pairs))
        for start in range(0, len(pairs), batch):
            group = pairs[start : start + batch]
            _, vectors = foregrounds(scob, known.split.images, known.scores, group, batch)
            tree.insert(
                torch.tensor([c for _, c in group]),
                torch.tensor([float(known.scores[row, c]) for row, c in group]),
                torch.arange(start, start + len(group)),
                vectors,
            )
            if progress is not None:
                progress(start + len(group), len(pairs))
        return cls(tree, tuple(known.observed.images[row] for row, _ in pairs))

    def nearest(self, c: int, vector: Tensor, image: str, count: int = 3) -> tuple[tuple[str, float], ...]:
        """The instances of class `c` in other images most like a foreground (E,), with their cosine in [0, 1]."""
        ids = self.tree.ids[c]
        cosine = torch.where(ids != EMPTY, self.tree.features[c] @ vector, -2.0)
        instances: list[tuple[str, float]] = []
        for slot in cosine.argsort(descending=True).tolist():
            if int(ids[slot]) == EMPTY or len(instances) == count:
                break
            name = self.names[int(ids[slot])]
            if name != image:
                instances.append((name, float(cosine[slot].clamp(0, 1))))
        return tuple(instances)
