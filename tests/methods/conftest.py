"""Experiments on partial labels, for the methods that are made for them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def partial_experiment(experiment_of: Callable[..., Any]) -> Callable[..., Any]:
    """`partial_experiment("method=sst")`: a new experiment in which 30 percent of the labels are observed."""
    return lambda *words: experiment_of("labels.kind=partial", "labels.fraction=0.3", *words)


@pytest.fixture(scope="session")
def prior_word(
    configure: Callable[..., Any], scenes_of: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """`labels.prior=FILE` with random scores of the small scenes, for the methods that need one."""
    data = scenes_of(configure())
    random = np.random.default_rng(0)
    lines = [",".join(("image", *data.drawn.classes))]
    lines += [
        ",".join((name, *(f"{p:.3f}" for p in random.random(len(data.drawn.classes))))) for name in data.drawn.images
    ]
    file = tmp_path_factory.mktemp("prior") / "prior.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"labels.prior={file}"
