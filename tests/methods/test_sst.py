"""Structured semantic transfer: its losses, thresholds and completed labels."""

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
    """Two with the class at cosine 0 (cost 1, both ways), one without, at cosines 1 and 0 to them (cost 2 and 1)."""
    nodes = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])
    loss = similarity_loss(similarities(nodes), torch.tensor([[1], [1], [-1]]))
    assert float(loss) == pytest.approx((1 + 1 + 2 + 1) / 4)


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
