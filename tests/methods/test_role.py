"""ROLE against Eq. 11 and 12, written out image by image."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.runs import first_batch


def single_positive_loss(p: list[list[float]], q: list[list[float]], observed: list[list[int]], k: float) -> float:
    """Eq. 11 for predictions p and estimates q."""
    images, classes = len(p), len(p[0])
    pseudo = single = 0.0
    for i in range(images):
        for c in range(classes):
            pseudo -= q[i][c] * math.log(p[i][c]) + (1 - q[i][c]) * math.log(1 - p[i][c])
            single -= math.log(p[i][c]) if observed[i][c] == 1 else 0.0
    expected = sum(sum(row) for row in p) / images
    return (pseudo + single) / (images * classes) + ((expected - k) / classes) ** 2


def test_the_loss_is_symmetric_in_predictions_and_estimates(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=role")
    method, batch = e.method, first_batch(e)
    method.eval()  # without dropout
    p = method.logits(method.clean_features(batch)).double().sigmoid().tolist()
    q = method.estimator.logits[batch.rows].double().sigmoid().tolist()
    observed, k = method.observed(batch).tolist(), method.problem.k
    by_hand = (single_positive_loss(p, q, observed, k) + single_positive_loss(q, p, observed, k)) / 2
    assert float(method.step(batch, e.optimiser)["class"]) == pytest.approx(by_hand, rel=1e-5)


def test_a_step_moves_the_estimates_of_its_own_images_only(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=role")
    batch = first_batch(e)
    before = e.method.estimates().clone()
    e.method.step(batch, e.optimiser)
    moved = (e.method.estimates() != before).any(dim=1).nonzero()[:, 0]
    assert moved.tolist() == sorted(batch.rows.tolist())
    assert bool(torch.isfinite(e.method.estimates()).all())
