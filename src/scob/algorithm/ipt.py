"""The instance priority tree (Alg. 2-3): for every class, its most confident object features.

The paper keeps one heap per class. Here they are one (classes, capacity) table of scores, ids and features. Inserting
a batch and reading the most confident nodes then take a fixed number of tensor operations, whatever the batch size and
the number of classes. `PlainHeap` in tests/algorithm/test_ipt.py is the equivalent heap, which follows Alg. 2-3 step
by step; a property test there compares the two after every batch. A full class drops its lowest score. Ties go to the
older node, so the contents never depend on chance.

Where Alg. 2-3 cannot be right as printed, table and heap follow the paper's text. Children at 2i and 2i + 1, counted
from 0, do not form a heap; the printed code drops the last leaf instead of the lowest score, and tests the size of N^z
where it pops N^i.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

EMPTY = -1
NEVER = torch.iinfo(torch.int64).min
ABOVE_ALL_SCORES = 0x7F800000 << 32  # the priority of an infinite score, before its age is added
TREE_NUMBERS = 1 << 26  # maximum number of floats in a tree: a quarter of a gibibyte


class InstancePriorityTree(nn.Module):
    """`capacity` nodes for each of `classes` classes. An image owns at most one node: a revisit replaces its old one.

    A node is a slot of the table: its `features`, its `scores`, and its image in `ids` (EMPTY if the slot is free).
    `priority` sorts a class's nodes by score, then age. `home` (N + 1,) is the slot that each image was last given, as
    an index into the flattened table. `inserted` counts all insertions; it dates the nodes.
    """

    features: Tensor
    scores: Tensor
    priority: Tensor
    ids: Tensor
    home: Tensor
    inserted: Tensor

    def __init__(
        self, classes: int, capacity: int, dimension: int, images: int, device: torch.device | None = None
    ) -> None:
        super().__init__()
        self.classes, self.capacity = classes, capacity
        # One class more than there are. What must not be stored (padding, images without a label, nodes that are too
        # low for a full class) is written to the first slot of this spare class, then erased.
        self.register_buffer("features", torch.zeros(classes + 1, capacity, dimension, device=device))
        self.register_buffer("scores", torch.full((classes + 1, capacity), -torch.inf, device=device))
        self.register_buffer("priority", torch.full((classes + 1, capacity), NEVER, dtype=torch.int64, device=device))
        self.register_buffer("ids", torch.full((classes + 1, capacity), EMPTY, dtype=torch.int64, device=device))
        self.register_buffer("home", torch.zeros(images + 1, dtype=torch.int64, device=device))
        self.register_buffer("inserted", torch.zeros((), dtype=torch.int64, device=device))

    @torch.no_grad()
    def insert(
        self, labels: Tensor, scores: Tensor | None, ids: Tensor, features: Tensor | Callable[[Tensor], Tensor]
    ) -> None:
        """Alg. 2 for a batch: labels (B,) class or -1 for none, scores (B,), ids (B,) no image twice, features (B, D).

        The result is that of removing every old node of the batch's images, in any class, and then inserting the images
        one after another. A full class keeps its highest scores; of equal scores the older node stays. Without scores
        (None) the tree is a plain memory bank: a full class keeps its newest nodes. `features` may be a function, which
        is asked only for the rows (b,) that the tree keeps: this saves time on a CPU (a GPU would have to wait).
        """
        spare_class, count = self.classes, len(labels)
        labelled = labels >= 0
        node_class = torch.where(labelled, labels, spare_class)
        flat_scores, flat_ids, flat_priority = self.scores.view(-1), self.ids.view(-1), self.priority.view(-1)

        old_slot = self.home[ids]
        owned = labelled & (flat_ids[old_slot] == ids)  # another image may have taken the slot since
        spare_slot = torch.full_like(old_slot, spare_class * self.capacity)
        emptied = torch.where(owned, old_slot, spare_slot)
        flat_scores.index_fill_(0, emptied, -torch.inf)  # a plain assignment would copy the number from the host
        flat_priority.index_fill_(0, emptied, NEVER)
        flat_ids.index_fill_(0, emptied, EMPTY)

        # The r-th best newcomer of a class competes with the r-th lowest node of that class, and replaces it if higher.
        born = self.inserted + torch.arange(count, device=labels.device)
        priority = ABOVE_ALL_SCORES + born if scores is None else by_score_then_age(scores, born)
        scores = (born if scores is None else scores).to(self.scores.dtype)
        rank = ((node_class[None, :] == node_class[:, None]) & (priority[None, :] > priority[:, None])).sum(dim=1)
        lowest, positions = self.priority[node_class].topk(min(count, self.capacity), dim=1, largest=False)
        opponent = rank.clamp(max=lowest.shape[1] - 1)[:, None]
        wins = labelled & (rank < lowest.shape[1]) & (priority > lowest.gather(1, opponent)[:, 0])
        slot = torch.where(wins, node_class * self.capacity + positions.gather(1, opponent)[:, 0], spare_slot)
        flat_scores[slot] = scores
        flat_priority[slot] = priority
        flat_ids[slot] = ids
        if isinstance(features, Tensor):
            self.features.view(-1, self.features.shape[2])[slot] = features.to(self.features.dtype)
        else:
            self._keep_winners(wins, slot, features)
        self.home[ids] = torch.where(wins, slot, torch.where(labelled, spare_slot, self.home[ids]))

        self.inserted += count
        self.scores[spare_class, 0].fill_(-torch.inf)
        self.priority[spare_class, 0].fill_(NEVER)
        self.ids[spare_class, 0].fill_(EMPTY)
        self.features[spare_class, 0].fill_(0)

    def _keep_winners(self, wins: Tensor, slot: Tensor, features: Callable[[Tensor], Tensor]) -> None:
        rows = wins.nonzero()[:, 0]
        if len(rows):
            self.features.view(-1, self.features.shape[2])[slot[rows]] = features(rows).to(self.features.dtype)

    def clear(self) -> None:
        """Remove every node. `inserted` counts on, so that later nodes are younger than these were."""
        self.features.zero_()
        self.scores.fill_(-torch.inf)
        self.priority.fill_(NEVER)
        self.ids.fill_(EMPTY)
        self.home.zero_()

    def top(self, count: int) -> tuple[Tensor, Tensor]:
        """Alg. 3: the `count` most confident nodes of every class: features (L, t, D) and which exist (L, t)."""
        best, positions = self.priority[:-1].topk(min(count, self.capacity), dim=1)
        return self._take(positions), best > NEVER

    def random(self, count: int, priorities: Tensor) -> tuple[Tensor, Tensor]:
        """The `Random` rows of Tab. 3: nodes of every class by random priorities (L, capacity)."""
        drawn = torch.where(self.scores[:-1] > -torch.inf, priorities, -1.0)
        best, positions = drawn.topk(min(count, self.capacity), dim=1)
        return self._take(positions), best >= 0

    def _take(self, positions: Tensor) -> Tensor:
        """The features (L, t, D) at positions (L, t) of every class."""
        first = torch.arange(self.classes, device=positions.device)[:, None] * self.capacity
        return self.features.view(-1, self.features.shape[2])[first + positions]


def by_score_then_age(scores: Tensor, born: Tensor) -> Tensor:
    """One int64 that sorts by float32 score and, for equal scores, ranks the older (smaller `born`) higher."""
    bits = scores.to(torch.float32).view(torch.int32).to(torch.int64)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # the bits of negative floats sort in reverse
    return (ordered << 32) + (0xFFFFFFFF - born)


def fitting_capacity(classes: int, dimension: int) -> int:
    """Nodes per class: 80 as in the paper, fewer if there are so many classes that the tree would get too large."""
    return max(4, min(80, TREE_NUMBERS // (classes * dimension)))
