"""A step replayed as a CUDA graph is the same step."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.training.train import SharedParts, train
from support.runs import trained_weights

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("method", ["scob", "role", "an", "an-ls", "wan", "epr", "em", "splc", "hill", "asl", "full"])
@pytest.mark.parametrize("more", ["train.feature_cache=none", "train.feature_cache=device", "train.estimator=dense"])
def test_a_graphed_run_is_the_plain_run(configure: Any, scenes_of: Any, tmp_path: Path, method: str, more: str) -> None:
    words = (
        f"method={method}", "train.device=cuda", "train.precision=fp32", "train.deterministic=true",
        "model.dropout=0", "scob.tree_lifetime=epoch", more,
    )  # fmt: skip
    for compiled in ("false", "true"):
        config = configure(*words, f"train.compile={compiled}")
        train(config, tmp_path / compiled, shared=SharedParts(scenes_of(config)))
    plain, graphed = (trained_weights(tmp_path / c) for c in ("false", "true"))
    for name, value in plain.items():
        assert torch.allclose(value, graphed[name], rtol=1e-2, atol=1e-3), name
