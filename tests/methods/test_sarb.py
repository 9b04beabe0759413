"""Semantic-aware representation blending: blends, prototypes and the warm-up."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scob.methods.sarb import Prototypes, blend
from support.runs import batches_of, first_batch


def test_blending_by_hand() -> None:
    own, other = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[5.0], [6.0]]])
    blended = blend(own, other, torch.tensor([[True, False]]), torch.tensor(0.75))
    assert blended.flatten().tolist() == [2.0, 2.0]


def test_a_blend_changes_only_unknown_labels_the_neighbour_has(partial_experiment: Callable[..., Any]) -> None:
    e = partial_experiment("method=sarb")
    nodes = torch.randn(3, 2, e.network.head.dimension)
    observed = torch.tensor([[0, 1], [0, -1], [1, 0]])
    blended, where = e.method.with_neighbour(nodes, observed, torch.tensor([True, True, True]))
    assert where.tolist() == [[True, False], [False, False], [False, False]]
    assert torch.allclose(blended[0, 0], (nodes[0, 0] + nodes[2, 0]) / 2)
    assert torch.equal(blended[1:], nodes[1:])


def test_prototypes_find_two_clusters() -> None:
    """Features around 0 and around 10, two centres: each cluster gets its own; a class without positives gets none."""
    torch.manual_seed(1)
    prototypes = Prototypes(2, 2, 3)
    for _ in range(20):
        clusters = torch.where(torch.rand(16, 1) < 0.5, 0.0, 10.0) + torch.randn(16, 3) * 0.1
        nodes = torch.stack((clusters, clusters), dim=1)
        prototypes.learn(nodes, torch.tensor([[True, False]]).expand(16, 2))
    centres = prototypes.centres[0].mean(dim=1).sort().values
    assert centres.tolist() == pytest.approx([0, 10], abs=1.0)
    assert prototypes.weight[0].sum() == 320 and not prototypes.weight[1].any()
    assert prototypes.pick(torch.rand(4, 2, 2))[1].tolist() == [[True, False]] * 4


def taught(points: torch.Tensor, order: list[int], count: int, batch: int) -> Prototypes:
    """Prototypes of one class that saw points (P, D) in this order, `batch` at a time."""
    prototypes = Prototypes(1, count, points.shape[1])
    for start in range(0, len(order), batch):
        nodes = points[order[start : start + batch]][:, None]
        prototypes.learn(nodes, torch.ones(len(nodes), 1, dtype=torch.bool))
    return prototypes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 7), st.integers(5, 8))
def test_no_cluster_is_missed_whatever_the_order(order: list[int], batch: int, count: int) -> None:
    """Copies of up to five points, at most as many as centres: each point gets one centre, and no centre is wasted."""
    points = torch.tensor([[0.0, 0.0, 1.0], [5.0, 0.0, 1.0], [0.0, 9.0, 1.0], [-3.0, 2.0, 1.0], [40.0, 40.0, 1.0]])
    prototypes = taught(points, order, count, batch)
    seen = sorted(set(order))
    used = prototypes.weight[0] > 0
    assert int(used.sum()) == len(seen)
    nearest = torch.cdist(points[seen], prototypes.centres[0, used]).amin(dim=1)
    assert float(nearest.max()) < 1e-3
    assert float(prototypes.weight.sum()) == len(order)
    picked, exists = prototypes.pick(torch.rand(50, 1, count))
    assert exists.all() and float(torch.cdist(picked[:, 0], points[seen]).amin(dim=1).max()) < 1e-3


def test_a_cluster_that_comes_last_is_found_after_all_centres_are_taken() -> None:
    """Noisy clusters one after another, the first long enough to take all four centres."""
    torch.manual_seed(0)
    middles = torch.tensor([[0.0] * 8, [30.0] * 8, [-30.0] * 8, [30.0] * 4 + [-30.0] * 4])
    points = torch.cat([middle + torch.randn(40, 8) for middle in middles])
    prototypes = taught(points, list(range(160)), 4, 8)
    assert float(torch.cdist(middles, prototypes.centres[0]).amin(dim=1).max()) < 1.5


def test_noise_does_not_take_the_centres_of_clusters() -> None:
    """Ten epochs of two noisy clusters: both centres stay means of many, close to the middles."""
    torch.manual_seed(0)
    middles = torch.zeros(2, 64)
    middles[1] = 3.0
    points = torch.cat([middle + torch.randn(100, 64) for middle in middles])
    prototypes = taught(points, torch.randperm(200).tolist() * 10, 2, 16)
    assert float(torch.cdist(middles, prototypes.centres[0]).amin(dim=1).max()) < 2.0, "one sample is 8 away"
    assert prototypes.weight[0].min() > 500


def test_nothing_is_blended_in_the_warm_up(partial_experiment: Callable[..., Any]) -> None:
    e = partial_experiment("method=sarb", "train.epochs=4", "sarb.warm_up=0.5")
    assert not {"instance", "prototype"} & set(e.method.step(first_batch(e, 1), e.optimiser))
    assert {"instance", "prototype"} <= set(e.method.step(first_batch(e, 2), e.optimiser))


@pytest.mark.parametrize("off", ["instance", "prototype"])
def test_blending_changes_what_is_learned(partial_experiment: Callable[..., Any], off: str) -> None:
    words = ("method=sarb", "sarb.warm_up=0")
    weights = []
    for e in (partial_experiment(*words), partial_experiment(*words, f"sarb.{off}=false")):
        for batch in list(batches_of(e, 0))[:2]:  # prototypes exist from the second step on
            torch.manual_seed(batch.step)
            losses = e.method.step(batch, e.optimiser)
        assert (off in losses) == (e.config.method_section("sarb").get(off) is not False)
        weights.append(e.network.head.reduce.weight.detach().clone())
    assert not torch.equal(*weights)
