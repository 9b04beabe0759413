"""Experiments on partial labels, for the methods that are made for them."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def partial_experiment(experiment_of: Callable[..., Any]) -> Callable[..., Any]:
    """`partial_experiment("method=sst")`: a new experiment in which 30 percent of the labels are observed."""
    return lambda *words: experiment_of("labels.kind=partial", "labels.fraction=0.3", *words)
