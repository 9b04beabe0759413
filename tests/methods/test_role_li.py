"""ROLE with linear initialisation."""

from collections.abc import Callable
from typing import Any

import torch

from support.runs import batches_of


def test_linear_initialisation_starts_linear(experiment_of: Callable[..., Any]) -> None:
    """The head does not change in the first phase, and does in the second."""
    e = experiment_of("method=role-li", "train.warmup=0")
    inner = e.network.head.inner
    start = [p.detach().clone() for p in inner.parameters()]
    e.method.step(next(iter(batches_of(e, 0))), e.optimiser)
    assert all(torch.equal(a, b) for a, b in zip(start, inner.parameters(), strict=True))
    assert not e.network.classifier.weight[:, : inner.dimension].any()
    for batch in list(batches_of(e, 2))[:2]:  # first the classifier's zeros move, then the head
        e.method.step(batch, e.optimiser)
    assert any(not torch.equal(a, b) for a, b in zip(start, inner.parameters(), strict=True))
