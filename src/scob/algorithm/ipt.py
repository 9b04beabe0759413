"""The instance priority tree (Alg. 2-3): for every class, its most confident object features.

A priority queue a class, kept as one (classes, capacity) table of scores, ids and features instead of pointers: a
batch goes in, and the most confident nodes come out, by a fixed number of tensor operations, whatever the batch and
the number of classes. Contents and order are those of a heap a class that drops its lowest score when full; of equal
scores the older node stands higher, so nothing is left to chance.

Where the paper's Alg. 2-3 cannot be meant as printed (children 2i and 2i + 1 from 0 are no heap; the last leaf, not
the lowest score, is dropped; the size of N^z is tested where N^i is popped) this follows its text.
"""

import torch
from torch import Tensor, nn

EMPTY = -1
NEVER = torch.iinfo(torch.int64).min


class InstancePriorityTree(nn.Module):
    """Nodes of `classes` classes, `capacity` each; an image owns at most one node (a revisit replaces its old one)."""

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
        # One class more than there are: what must not be stored (padding, images without a label, nodes that lose
        # against a full tree) is written to that last class's first slot and wiped.
        self.register_buffer("features", torch.zeros(classes + 1, capacity, dimension, device=device))
        self.register_buffer("scores", torch.full((classes + 1, capacity), -torch.inf, device=device))
        self.register_buffer("priority", torch.full((classes + 1, capacity), NEVER, dtype=torch.int64, device=device))
        self.register_buffer("ids", torch.full((classes + 1, capacity), EMPTY, dtype=torch.int64, device=device))
        self.register_buffer("home", torch.zeros(images + 1, dtype=torch.int64, device=device))
        self.register_buffer("inserted", torch.zeros((), dtype=torch.int64, device=device))

    @torch.no_grad()
    def insert(self, labels: Tensor, scores: Tensor, ids: Tensor, features: Tensor) -> None:
        """Alg. 2 for a batch: labels (B,) class or -1 for none, scores (B,), ids (B,) no image twice, features (B, D).

        First every image of the batch leaves the node it had, in whichever class; then they come in one after another.
        A full class keeps its highest scores; of equal scores the older node stays.
        """
        bin_class, count = self.classes, len(labels)
        real = labels >= 0
        target = torch.where(real, labels, bin_class)
        flat_scores, flat_ids, flat_priority = self.scores.view(-1), self.ids.view(-1), self.priority.view(-1)

        old = self.home[ids]
        owned = real & (flat_ids[old] == ids)
        spill = torch.full_like(old, bin_class * self.capacity)
        emptied = torch.where(owned, old, spill)
        flat_scores.index_fill_(0, emptied, -torch.inf)  # a plain assignment would copy the number from the host
        flat_priority.index_fill_(0, emptied, NEVER)
        flat_ids.index_fill_(0, emptied, EMPTY)

        # The r-th best newcomer of a class stands against that class's r-th lowest node and takes its slot if higher.
        scores = scores.to(self.scores.dtype)
        priority = by_score_then_age(scores, self.inserted + torch.arange(count, device=labels.device))
        rank = ((target[None, :] == target[:, None]) & (priority[None, :] > priority[:, None])).sum(dim=1)
        lowest, slots = self.priority[target].topk(min(count, self.capacity), dim=1, largest=False)
        within = rank.clamp(max=lowest.shape[1] - 1)[:, None]
        wins = real & (rank < lowest.shape[1]) & (priority > lowest.gather(1, within)[:, 0])
        place = torch.where(wins, target * self.capacity + slots.gather(1, within)[:, 0], spill)
        flat_scores[place] = scores
        flat_priority[place] = priority
        flat_ids[place] = ids
        self.features.view(-1, self.features.shape[2])[place] = features.to(self.features.dtype)
        self.home[ids] = torch.where(wins, place, torch.where(real, spill, self.home[ids]))

        self.inserted += count
        self.scores[bin_class, 0].fill_(-torch.inf)
        self.priority[bin_class, 0].fill_(NEVER)
        self.ids[bin_class, 0].fill_(EMPTY)
        self.features[bin_class, 0].fill_(0)

    def top(self, count: int) -> tuple[Tensor, Tensor]:
        """Alg. 3: the `count` most confident nodes of every class: features (L, t, D) and which exist (L, t)."""
        best, slots = self.priority[:-1].topk(min(count, self.capacity), dim=1)
        return self._take(slots), best > NEVER

    def random(self, count: int, priorities: Tensor) -> tuple[Tensor, Tensor]:
        """The `Random` rows of Tab. 3: nodes of every class by random priorities (L, capacity)."""
        drawn = torch.where(self.scores[:-1] > -torch.inf, priorities, -1.0)
        best, slots = drawn.topk(min(count, self.capacity), dim=1)
        return self._take(slots), best >= 0

    def _take(self, slots: Tensor) -> Tensor:
        first = torch.arange(self.classes, device=slots.device)[:, None] * self.capacity
        return self.features.view(-1, self.features.shape[2])[first + slots]


def by_score_then_age(scores: Tensor, born: Tensor) -> Tensor:
    """One int64 that sorts by float32 score and, where those are equal, the older (smaller `born`) higher."""
    bits = scores.to(torch.float32).view(torch.int32).to(torch.int64)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # floats below 0 sort backwards by their bits
    return (ordered << 32) + (0xFFFFFFFF - born)


def fitting_capacity(classes: int, dimension: int) -> int:
    """How many nodes per class: 80 as in the paper, fewer for thousands of classes, so that memory stays bounded."""
    return max(4, min(80, (1 << 26) // (classes * dimension)))
