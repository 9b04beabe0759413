"""What one training step costs: passes through the backbone and synchronisations, counted."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.bench.step import bench_step, count_waits, measure_step
from scob.config import ModelSettings
from scob.model.smt import EncoderLayer, SemanticMaskedTransformer


@pytest.mark.parametrize(
    ("words", "forwards"),
    [((), 3), (("scob.positive=self",), 2), (("train.feature_cache=device",), 1), (("scob.contrast=none",), 1)],
)
def test_a_steps_forwards_and_synchronisations(experiment_of: Any, words: tuple[str, ...], forwards: int) -> None:
    row = measure_step(experiment_of("scob.init_epochs=0", *words), 1)
    assert row.pop("milliseconds") > 0
    passes = row.pop("backbone_forwards")  # a CPU leaves out strong views that are clean views
    assert passes == forwards if "scob.contrast=none" in words else forwards - 1 < passes < forwards
    assert row == {"backbone_backwards": 0, "synchronisations": 0}


def test_gradients_of_a_backbone_that_learns_are_counted(experiment_of: Any) -> None:
    row = measure_step(experiment_of("scob.init_epochs=0", "model.freeze=none"), 1)
    assert row["backbone_forwards"] == 3
    assert row["backbone_backwards"] > 0


@pytest.mark.slow
def test_every_variant_of_a_step_is_measured(tiny_backbone: Path) -> None:
    rows = bench_step("cpu", batch=4, size=64, backbone=str(tiny_backbone), repeats=1)
    assert [math.ceil(r["backbone_forwards"]) for r in rows] == [3, 2, 1, 1]


def test_a_wait_is_counted() -> None:
    values = torch.ones(3)
    assert count_waits(lambda: float(values.sum()), torch.device("cpu")) == 1
    assert count_waits(lambda: values[values > 0], torch.device("cpu")) == 1
    assert count_waits(lambda: values * 2, torch.device("cpu")) == 0


def test_a_wait_inside_the_masked_transformer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU it chooses cells by value, which is not a wait; what its layers do runs on a GPU too."""
    smt = SemanticMaskedTransformer(4, (3, 3), ModelSettings(width=8, heads=2, feedforward=8, layers=1))
    features, keep = torch.randn(2, 4, 3, 3), torch.eye(3, dtype=torch.bool).expand(2, 3, 3)
    cpu = torch.device("cpu")
    assert count_waits(lambda: smt(features, keep), cpu) == 0
    feed = EncoderLayer.feed
    monkeypatch.setattr(EncoderLayer, "feed", lambda self, x: feed(self, x) * float(bool(x.sum().item() < 1e9)))
    assert count_waits(lambda: smt(features, keep), cpu) > 0
