"""Semantic-aware representation blending: blends, prototypes and the warm-up."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

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
        prototypes.learn(nodes, torch.tensor([[True, False]]).expand(16, 2), torch.rand(16, 2))
    centres = prototypes.centres[0].mean(dim=1).sort().values
    assert centres.tolist() == pytest.approx([0, 10], abs=1.0)
    assert prototypes.weight[0].sum() == 320 and not prototypes.weight[1].any()
    assert prototypes.pick(torch.rand(4, 2, 2))[1].tolist() == [[True, False]] * 4


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
