"""L_class with online label estimation: whose estimates move, and by how much."""

from typing import Any

import numpy as np
import pytest
import torch

from scob.algorithm.losses import l_class
from support.runs import batches_of


def test_a_batch_of_padding_changes_nothing(experiment_of: Any) -> None:
    """The last batch of an epoch has the same loss with and without padding."""
    from scob.algorithm.sampling import Plan, to_device

    e = experiment_of("method=role", "train.batch=16", "model.dropout=0")
    losses = []
    for pad in (False, True):
        planned = list(Plan(e.data.observed, 16, 0, pad=pad).epoch(0))[-1]
        batch = to_device(planned, 0, 2, e.processes.device)
        batch.images = e.inputs.feeds["train"].fetch(np.minimum(planned.rows, e.plan.count - 1))
        loss, _ = e.method.class_loss(e.method.logits(e.method.clean_features(batch)), batch)
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert len(next(batches_of(e, 0)).rows) == 16


def test_a_step_moves_the_batchs_estimates_only(experiment_of: Any) -> None:
    e = experiment_of()
    e.method.begin_epoch(1)
    batch = next(batches_of(e, 1))
    before = e.method.estimates().clone()
    e.optimiser.begin(5)
    e.method.step(batch, e.optimiser)
    moved = (e.method.estimates() != before).any(dim=1)
    assert sorted(moved.nonzero()[:, 0].tolist()) == sorted(batch.rows.tolist())


def test_an_estimate_moves_the_same_in_any_batch_size(experiment_of: Any) -> None:
    """The gradient that moves a row is that of the image's own loss: the weight of the batch is divided out."""
    e = experiment_of("method=role", "model.dropout=0", "labels.k=1.5")
    received: list[torch.Tensor] = []
    e.method.estimator.move = lambda rows, gradient, rate: received.append(gradient)
    batch = next(batches_of(e, 0))
    for weight in (1.0, 1 / 8):
        batch.weight = torch.full_like(batch.weight, weight)
        rows = e.method.estimator.rows(batch.rows)
        rows.grad = weight * torch.arange(rows.numel()).view_as(rows).float()
        e.method.move_estimates(batch, rows, 0.1)
    assert torch.allclose(received[0], received[1])


def test_padding_does_not_move_any_estimate(experiment_of: Any) -> None:
    e = experiment_of("method=role")
    batch = next(batches_of(e, 0))
    batch.weight[0] = 0
    rows = e.method.estimator.rows(batch.rows)
    rows.grad = torch.full_like(rows, torch.nan)
    rows.grad[1:] = 1.0
    before = e.method.estimates().clone()
    e.method.move_estimates(batch, rows, 0.1)
    after = e.method.estimates()
    assert torch.equal(after[batch.rows[0]], before[batch.rows[0]])
    assert not torch.equal(after[batch.rows[1]], before[batch.rows[1]])


def test_the_class_loss_is_eq_12_of_predictions_and_estimates(experiment_of: Any) -> None:
    e = experiment_of("method=role")
    batch = next(batches_of(e, 0))
    logits = torch.randn(len(batch.rows), len(e.data.observed.classes))
    loss, rows = e.method.class_loss(logits, batch)
    estimates, observed = e.method.estimates()[batch.rows], torch.from_numpy(e.data.observed.values)[batch.rows]
    assert loss.item() == pytest.approx(l_class(logits.sigmoid(), estimates, observed, e.data.k).item(), rel=1e-5)
    loss.backward()
    assert rows.grad is not None
