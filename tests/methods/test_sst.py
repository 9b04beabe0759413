"""Structured semantic transfer: its losses, thresholds and completed labels."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from scob.methods.sst import from_image, from_others, occurrence_loss, similarities, similarity_loss
from support.runs import first_batch


def test_occurrence_by_hand() -> None:
    """Pairs with the first label present: (a, b) of image 1, where b is absent. Its logit 0 costs log 2, one of 12."""
    observed = torch.tensor([[1, -1, 0], [-1, -1, 0]])
    logits = torch.zeros(2, 3, 3)
    assert float(occurrence_loss(logits, observed)) == pytest.approx(0.6931 / 12, abs=1e-4)
    logits[0, 0, 1] = -20
    assert float(occurrence_loss(logits, observed)) == pytest.approx(0, abs=1e-6)


def test_labels_from_the_same_image() -> None:
    """c goes with a (0.99) but not with b (0.5): the mean over the known positives decides."""
    pairs = torch.full((1, 3, 3), -9.0)
    pairs[0, 0, 2], pairs[0, 1, 2] = torch.logit(torch.tensor(0.99)), 0.0
    assert from_image(pairs, torch.tensor([[1, 0, 0]]), 0.95).tolist() == [[False, False, True]]
    assert not from_image(pairs, torch.tensor([[1, 1, 0]]), 0.95).any()
    assert not from_image(pairs, torch.tensor([[0, 0, 0]]), 0.95).any()


def test_labels_from_other_images() -> None:
    """In image 1 a is unknown, but it looks just like image 0, which has a; image 2 looks different."""
    nodes = torch.tensor([[[1.0, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]])
    observed = torch.tensor([[1], [0], [0]])
    completed = from_others(similarities(nodes), observed, 0.95)
    assert completed.tolist() == [[False], [True], [False]]


def test_similarity_loss_by_hand() -> None:
    """Two with the class at cosine 0 (cost 1); one without, at cosines 1 and 0 to them (cost 2 and 1).

    One pair has the class, so two of the other two are drawn (both) and the most similar is added once more.
    """
    nodes = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])
    loss = similarity_loss(similarities(nodes), torch.tensor([[1], [1], [-1]]))
    assert float(loss) == pytest.approx((1 + 2 + 1 + 2) / 4)


@pytest.mark.parametrize("present", [0.0, 0.12, 0.3])
def test_similarity_loss_is_the_mean_over_sampled_pairs(present: float) -> None:
    """Against drawing the pairs, pair by pair, many times: of 9 images and 4 classes, a share is present."""
    draw = torch.Generator().manual_seed(3)
    nodes = torch.randn(9, 4, 5, generator=draw)
    odds = torch.rand(9, 4, generator=draw)
    observed = torch.where(odds < present, 1, torch.where(odds < 0.8, -1, 0))
    similar = similarities(nodes)
    alike, differ, neither = [], [], []
    for c in range(4):
        for n in range(9):
            for m in range(n):
                labels, cosine = sorted((int(observed[n, c]), int(observed[m, c]))), float(similar[c, n, m])
                if labels == [1, 1]:
                    alike.append(1 - cosine)
                elif labels in ([-1, 1], [-1, -1]):
                    (differ if labels == [-1, 1] else neither).append(1 + cosine)
    drawn = []
    for _ in range(1500 if alike else 1):
        costs = list(alike)
        for apart in (differ, neither):
            order = torch.randperm(len(apart), generator=draw).tolist()
            sample = [apart[i] for i in order[: 2 * len(alike)]] + sorted(apart, reverse=True)[: len(alike)]
            costs += sample if alike else apart
        drawn.append(sum(costs) / len(costs))
    assert bool(alike) == (present > 0)
    assert float(similarity_loss(similar, observed)) == pytest.approx(sum(drawn) / len(drawn), abs=0.01)


def test_nothing_known_costs_nothing_and_has_a_gradient() -> None:
    nodes = torch.randn(3, 2, 4, requires_grad=True)
    loss = similarity_loss(similarities(nodes), torch.zeros(3, 2, dtype=torch.int8))
    loss.backward()
    assert float(loss.detach()) == 0 and nodes.grad is not None and not nodes.grad.any()


@pytest.mark.parametrize("name", ["sst", "sarb"])
@pytest.mark.parametrize("words", [(), ("labels.kind=single",), ("labels.kind=full",)])
def test_the_bce_is_a_mean_over_the_known_labels_of_the_batch(
    partial_experiment: Callable[..., Any], name: str, words: tuple[str, ...]
) -> None:
    """One known label after another; the last image is padding, which does not count."""
    e = partial_experiment(f"method={name}", *words)
    batch = first_batch(e)
    batch.weight[-1] = 0
    logits = torch.randn(len(batch.rows), 16)
    costs = []
    for row, label_row in zip(logits[:-1].tolist(), e.method.observed(batch)[:-1].tolist(), strict=True):
        costs += [math.log(1 + math.exp(-z * label)) for z, label in zip(row, label_row, strict=True) if label]
    losses = e.method.losses(logits, e.method.observed(batch), batch)
    assert float(losses["bce"]) == pytest.approx(sum(costs) / len(costs), rel=1e-5)


def test_thresholds_fall_after_the_warm_up(partial_experiment: Callable[..., Any]) -> None:
    """From 0.95 by 0.025 per epoch to 0.75; a threshold that starts lower stays."""
    e = partial_experiment("method=sst", "train.epochs=20", "sst.theta_cross=0.5")
    method = e.method
    assert method.fallen(4) is None and method.fallen(5) == 0
    thresholds = [method.threshold(0.95, method.fallen(epoch)) for epoch in (5, 6, 13, 19)]
    assert thresholds == pytest.approx([0.95, 0.925, 0.75, 0.75])
    assert method.threshold(0.5, method.fallen(19)) == 0.5
    assert method.phase(5) != method.phase(6) and method.phase(14) == method.phase(19)


def test_completed_labels_are_learned_along_with_the_known_ones(partial_experiment: Callable[..., Any]) -> None:
    """Nothing reaches the threshold, so the term for completed labels equals the BCE of the known ones."""
    e = partial_experiment("method=sst", "sst.warm_up=0", "sst.theta_intra=1", "sst.theta_least=1")
    losses = e.method.step(first_batch(e), e.optimiser)
    assert float(losses["intra"]) == pytest.approx(float(losses["bce"]), rel=1e-6)


@pytest.mark.parametrize("off", ["intra", "cross"])
def test_transfer_changes_what_is_learned(partial_experiment: Callable[..., Any], off: str) -> None:
    words = ("method=sst", "sst.warm_up=0", "sst.theta_intra=0.1", "sst.theta_cross=-1")
    weights = []
    for e in (partial_experiment(*words), partial_experiment(*words, f"sst.{off}=false")):
        torch.manual_seed(0)
        losses = e.method.step(first_batch(e), e.optimiser)
        assert all(bool(torch.isfinite(v)) for v in losses.values())
        assert (off in losses) == (e.config.method_section("sst").get(off) is not False)
        weights.append(e.network.head.reduce.weight.detach().clone())
    assert not torch.equal(*weights)
