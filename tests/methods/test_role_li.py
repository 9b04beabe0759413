"""ROLE with linear initialisation."""

from collections.abc import Callable
from typing import Any

import torch

from support.runs import batches_of


def test_linear_initialisation_starts_linear(experiment_of: Callable[..., Any]) -> None:
    """In the first phase the head stays as it was; in the second it moves."""
    e = experiment_of("method=role-li", "train.warmup=0")
    inner = e.network.head.inner
    start = [p.detach().clone() for p in inner.parameters()]
    e.method.step(next(iter(batches_of(e, 0))), e.optimiser)
    assert all(torch.equal(a, b) for a, b in zip(start, inner.parameters(), strict=True))
    assert not e.network.classifier.weight[:, : inner.dimension].any()
    for batch in list(batches_of(e, 2))[:2]:  # the classifier's zeros move first, the head behind them next
        e.method.step(batch, e.optimiser)
    assert any(not torch.equal(a, b) for a, b in zip(start, inner.parameters(), strict=True))
