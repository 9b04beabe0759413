"""Class-aware pseudo-labels against naive loops."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from scob.methods.cap import class_priors, prior_matched
from support.runs import first_batch, step_epoch


def test_priors_are_the_observed_shares_scaled_to_k_positives_per_image() -> None:
    observed = torch.tensor([[1, 0, 0], [0, 1, -1], [1, 0, 0], [0, 0, 1]], dtype=torch.int8)
    assert class_priors(observed, 1.5).tolist() == pytest.approx([0.75, 0.375, 0.375])
    assert class_priors(observed, 3.0).tolist() == pytest.approx([0.95, 0.75, 0.75]), "a prior stays below 1"
    assert not class_priors(observed * 0, 2.0).any()


def test_the_highest_are_positive_and_the_lowest_negative() -> None:
    torch.manual_seed(0)
    scores, priors = torch.randn(40, 5).round(decimals=1), torch.tensor([0.0, 0.1, 0.33, 0.5, 0.95])
    ours = prior_matched(scores, priors, 0.8, 0.7)
    for c in range(5):
        ranked = sorted(range(40), key=lambda i: (-float(scores[i, c]), i))
        top, bottom = round(0.8 * float(priors[c]) * 40), round(0.7 * (1 - float(priors[c])) * 40)
        naive = [0] * 40
        for place, row in enumerate(ranked):
            naive[row] = 1 if place < top else -1 if place >= 40 - bottom else 0
        assert ours[:, c].tolist() == naive


def test_a_resumed_epoch_keeps_its_pseudo_labels(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=cap", "train.warmup=0")
    step_epoch(e, 0)
    m = e.method
    assert m.scored[:-1].abs().sum(dim=1).min() > 0, "every image was scored"
    m.begin_epoch(1)
    decided = m.pseudo.clone()
    observed = m.problem.observed
    naive = prior_matched(m.scored[:-1], class_priors(observed[:-1], m.problem.k), 1.0, 0.9)
    assert torch.equal(decided[:-1], torch.where(observed[:-1] == 0, naive, observed[:-1]))
    m.scored.neg_()
    m.begin_epoch(1)
    assert torch.equal(m.pseudo, decided)
    m.begin_epoch(2)
    assert not torch.equal(m.pseudo, decided)


def test_the_loss_is_asl_on_the_labels_that_are_left(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=cap", "train.warmup=0", "model.dropout=0")
    step_epoch(e, 0)
    e.method.begin_epoch(1)
    batch = first_batch(e, 1)
    with torch.no_grad():
        p = e.method.logits(e.method.clean_features(batch)).sigmoid()
    labels = e.method.pseudo[batch.rows]
    assert (labels == 0).any() and (labels == 1).any()
    total = 0.0
    for i in range(len(p)):
        for c in range(p.shape[1]):
            q = torch.clamp(p[i, c] - 0.05, min=0)
            cost = {1: -p[i, c].log(), -1: -(q**4) * (1 - q).log(), 0: 0.0}[int(labels[i, c])]
            total += float(cost) / p.numel()
    assert float(e.method.step(batch, e.optimiser)["asymmetric"]) == pytest.approx(total, rel=1e-3)


def test_the_averaged_model_follows_and_is_never_trained(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=cap", "train.warmup=0", "cap.momentum=0.5")
    e.optimiser.begin(0)
    before = [p.clone() for p in e.method.averaged.parameters()]
    e.method.train()
    e.method.step(first_batch(e, 0), e.optimiser)
    online = [*e.network.head.parameters(), *e.network.classifier.parameters()]
    for old, new, now in zip(before, e.method.averaged.parameters(), online, strict=True):
        assert torch.allclose(new, 0.5 * old + 0.5 * now, atol=1e-6) and not new.requires_grad
    assert not e.method.averaged.training
