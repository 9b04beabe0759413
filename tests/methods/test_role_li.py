"""ROLE with linear initialisation."""

from collections.abc import Callable
from typing import Any

import pytest
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


@pytest.mark.parametrize("head", ["smt", "cnn", "large-cnn"])
def test_head_and_classifier_learn_at_the_rates_they_have_in_role(experiment_of: Callable[..., Any], head: str) -> None:
    """The same number of parameters at each rate; the classifier also reads the mean of stage 4."""
    plain = experiment_of("method=role", f"model.head={head}")
    linear_first = experiment_of("method=role-li", f"model.head={head}")
    expected = {name: len(parameters) for name, parameters in plain.method.groups().items()}
    assert {name: len(parameters) for name, parameters in linear_first.method.groups().items()} == expected
    rates = experiment_of("method=role-li", f"model.head={head}", "train.lr_cnn=0.125", "train.warmup=0").optimiser
    assert (0.125 in [float(group["lr"]) for group in rates.adam.param_groups]) == (head != "smt")
