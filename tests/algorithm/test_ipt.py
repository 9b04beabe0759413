"""The tree against one plain heap per class: Alg. 2-3 with the children of i at 2i + 1 and 2i + 2."""

import heapq
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scob.algorithm.ipt import EMPTY, InstancePriorityTree, fitting_capacity


class PlainHeap:
    """Alg. 2-3 for one class: a max-heap in a list; nodes are (score, -age, image)."""

    def __init__(self) -> None:
        self.nodes: list[tuple[float, int, int]] = []

    def insert(self, node: tuple[float, int, int]) -> None:
        """Alg. 2: append, then swap with the parent as long as the parent is lower."""
        self.nodes.append(node)
        i = len(self.nodes) - 1
        while i > 0 and self.nodes[(i - 1) // 2] < self.nodes[i]:
            parent = (i - 1) // 2
            self.nodes[parent], self.nodes[i] = self.nodes[i], self.nodes[parent]
            i = parent

    def pop(self) -> tuple[float, int, int]:
        """Alg. 3, one round: take the root, put the last leaf in its place, then swap it down."""
        root, last = self.nodes[0], self.nodes.pop()
        if self.nodes:
            self.nodes[0], i = last, 0
            while (child := 2 * i + 1) < len(self.nodes):
                if child + 1 < len(self.nodes) and self.nodes[child + 1] > self.nodes[child]:
                    child += 1
                if self.nodes[i] >= self.nodes[child]:
                    break
                self.nodes[i], self.nodes[child] = self.nodes[child], self.nodes[i]
                i = child
        return root

    def top(self, count: int) -> list[tuple[float, int, int]]:
        """Pop, and put back what was popped."""
        popped = [self.pop() for _ in range(min(count, len(self.nodes)))]
        for node in popped:
            self.insert(node)
        return popped


@dataclass
class HeapPerClass:
    """One heap per class. A full heap drops its lowest node; `heapq` says which one that is."""

    classes: int
    capacity: int
    heaps: list[PlainHeap] = field(default_factory=list)
    age: int = 0

    def __post_init__(self) -> None:
        self.heaps = [PlainHeap() for _ in range(self.classes)]

    def keep(self, heap: PlainHeap, nodes: list[tuple[float, int, int]]) -> None:
        heap.nodes = []
        for node in nodes:
            heap.insert(node)

    def insert(self, batch: list[tuple[int, float, int]]) -> None:
        """A batch of (class or -1, score, image): their old nodes are removed, then they are inserted one by one."""
        arriving = {image for label, _, image in batch if label >= 0}
        for heap in self.heaps:
            self.keep(heap, [n for n in heap.nodes if n[2] not in arriving])
        for label, score, image in batch:
            if label >= 0:
                heap = self.heaps[label]
                heap.insert((score, -self.age, image))
                self.keep(heap, heapq.nlargest(self.capacity, heap.nodes))
            self.age += 1


GRID = (0.0, 0.25, 0.5, 0.5 + 2**-24, 1.0)  # few values: many ties
IMAGES = 12


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, list[list[tuple[int, float, int]]]]:
    classes, capacity = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        images = draw(st.lists(st.integers(0, IMAGES - 1), min_size=1, max_size=9, unique=True))
        labels = [draw(st.integers(-1, classes - 1)) for _ in images]
        scores = [draw(st.sampled_from(GRID) | st.floats(0, 1, width=32)) for _ in images]
        batches.append(list(zip(labels, scores, images, strict=True)))
    return classes, capacity, batches


def feature(step: int, image: int) -> list[float]:
    return [float(step), float(image), 1.0]


def put(tree: InstancePriorityTree, batch: list[tuple[int, float, int]], step: int = 0) -> None:
    labels, scores, images = zip(*batch, strict=True)
    tree.insert(
        torch.tensor(labels), torch.tensor(scores), torch.tensor(images),
        torch.tensor([feature(step, image) for image in images]),
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(histories(), st.integers(1, 7))
def test_contents_and_top_equal_one_heap_per_class(
    history: tuple[int, int, list[list[tuple[int, float, int]]]], count: int
) -> None:
    classes, capacity, batches = history
    tree, reference = InstancePriorityTree(classes, capacity, 3, IMAGES), HeapPerClass(classes, capacity)
    newest: dict[int, int] = {}
    for step, batch in enumerate(batches):
        put(tree, batch, step)
        reference.insert(batch)
        newest |= {image: step for label, _, image in batch if label >= 0}
        for c, heap in enumerate(reference.heaps):
            held = [(s, i) for s, i in zip(tree.scores[c].tolist(), tree.ids[c].tolist(), strict=True) if i != EMPTY]
            assert sorted(held) == sorted((score, image) for score, _, image in heap.nodes)
        features, exist = tree.top(count)
        for c, heap in enumerate(reference.heaps):
            expected = [feature(newest[image], image) for _, _, image in heap.top(min(count, capacity))]
            assert exist[c].tolist() == [n < len(expected) for n in range(min(count, capacity))]
            assert features[c][exist[c]].tolist() == expected


def test_the_heap_of_the_reference_pops_in_order() -> None:
    heap = PlainHeap()
    for n, score in enumerate((3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0)):
        heap.insert((score, -n, n))
    assert [s for s, _, _ in heap.top(8)] == [9.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0]
    assert [n for s, _, n in heap.top(8)[-2:]] == [1, 3]  # of equal scores the older first


def test_of_equal_scores_the_older_stays() -> None:
    tree = InstancePriorityTree(1, 2, 3, IMAGES)
    put(tree, [(0, 0.5, 0), (0, 0.5, 1), (0, 0.5, 2)])
    assert sorted(tree.ids[0].tolist()) == [0, 1]
    put(tree, [(0, 0.9, 3)])  # one of the equal two must leave: the younger
    assert sorted(tree.ids[0].tolist()) == [0, 3]


def test_a_revisit_moves_the_image_to_its_new_class() -> None:
    tree = InstancePriorityTree(2, 3, 3, IMAGES)
    put(tree, [(0, 0.9, 5)])
    put(tree, [(1, 0.1, 5)], 1)
    assert (tree.ids[:2] == 5).sum() == 1
    assert 5 in tree.ids[1].tolist()


def test_an_image_without_a_label_and_padding_leave_no_trace() -> None:
    tree = InstancePriorityTree(2, 3, 3, IMAGES)
    put(tree, [(-1, 0.9, 4), (-1, 0.8, IMAGES), (-1, 0.8, IMAGES)])
    assert (tree.ids == EMPTY).all()
    assert (tree.features == 0).all()
    assert not tree.top(3)[1].any()


@pytest.mark.parametrize("inserted", [0, 2**24, 2**40])
def test_a_memory_bank_keeps_the_newest(inserted: int) -> None:
    """Images one by one, without scores: the last three stay, newest first, even after nodes that do have scores."""
    tree = InstancePriorityTree(1, 3, 3, IMAGES)
    tree.inserted.fill_(inserted)
    put(tree, [(0, float(inserted), 0), (0, 3e38, 1)])  # banks of earlier versions used the count as the score
    for image in range(2, 8):
        tree.insert(torch.tensor([0]), None, torch.tensor([image]), torch.tensor([feature(0, image)]))
        assert int(tree.ids[0, tree.priority[0].argmax()]) == image
    assert sorted(tree.ids[0].tolist()) == [5, 6, 7]
    assert torch.isfinite(tree.scores[0]).all()


def test_a_random_draw_takes_only_nodes_that_exist() -> None:
    tree = InstancePriorityTree(2, 4, 3, IMAGES)
    put(tree, [(0, 0.9, 1), (0, 0.2, 2)])
    features, exist = tree.random(3, torch.tensor([[0.1, 0.9, 0.5, 0.8], [0.4, 0.3, 0.2, 0.1]]))
    assert exist.sum(dim=1).tolist() == [2, 0]
    assert sorted(features[0][exist[0]][:, 1].tolist()) == [1.0, 2.0]


def test_the_tree_is_in_a_checkpoint() -> None:
    tree, other = InstancePriorityTree(2, 3, 3, IMAGES), InstancePriorityTree(2, 3, 3, IMAGES)
    put(tree, [(0, 0.9, 1), (1, 0.4, 2)])
    other.load_state_dict(tree.state_dict())
    put(tree, [(0, 0.5, 2), (1, 0.4, 3)])
    put(other, [(0, 0.5, 2), (1, 0.4, 3)])
    assert all(torch.equal(a, b) for a, b in zip(tree.buffers(), other.buffers(), strict=True))


def test_the_capacity_shrinks_with_thousands_of_classes_and_never_below_four() -> None:
    assert fitting_capacity(80, 512) == 80
    assert fitting_capacity(10_000, 512) == (1 << 26) // (10_000 * 512) == 13
    assert fitting_capacity(1_000_000, 512) == 4


def test_a_cleared_tree_is_as_new_but_for_the_age_of_its_nodes() -> None:
    tree, twin = (InstancePriorityTree(3, 2, 4, 9) for _ in range(2))
    first = (torch.tensor([0, 1, 1]), torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 1, 2]), torch.ones(3, 4))
    second = (torch.tensor([1, 1, 1]), torch.tensor([0.2, 0.2, 0.1]), torch.tensor([5, 1, 0]), torch.ones(3, 4))
    tree.insert(*first)
    assert tree.top(2)[1].sum() == 3
    tree.clear()
    assert not tree.top(2)[1].any()
    for each in (tree, twin):
        each.insert(*second)
    for name in ("features", "scores", "ids"):
        assert torch.equal(getattr(tree, name), getattr(twin, name)), name
    assert tree.inserted == 6


@pytest.mark.parametrize("scored", [True, False])
def test_features_on_request_are_those_that_are_kept(scored: bool) -> None:
    """The same tree, and no feature is asked for that is thrown away."""
    draw = torch.Generator().manual_seed(5)
    given, asked = (InstancePriorityTree(3, 4, 2, 30) for _ in range(2))
    requests = 0
    for _ in range(12):
        ids = torch.randperm(30, generator=draw)[:8]
        labels = torch.randint(-1, 3, (8,), generator=draw)
        scores = torch.rand(8, generator=draw) if scored else None
        features = torch.rand(8, 2, generator=draw)
        before = asked.ids.clone()

        def on_request(rows: torch.Tensor, features: torch.Tensor = features, ids: torch.Tensor = ids) -> torch.Tensor:
            nonlocal requests
            requests += len(rows)
            assert torch.isin(ids[rows], asked.ids).all()
            return features[rows]

        given.insert(labels, scores, ids, features)
        asked.insert(labels, scores, ids, on_request)
        assert not torch.equal(before, asked.ids)
        for name, value in given.state_dict().items():
            assert torch.equal(value, asked.state_dict()[name]), name
    assert requests < 12 * 8
