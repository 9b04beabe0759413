"""What one training step costs: passes through the backbone and synchronisations, counted."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.bench.step import bench_step, count_waits, measure_step, with_images
from scob.bench.workload import bench_config, random_data
from scob.config import ModelSettings
from scob.model.smt import EncoderLayer, SemanticMaskedTransformer
from scob.parallel import Processes
from scob.training.build import build


@pytest.mark.parametrize(
    ("words", "views"),
    [((), 3), (("scob.positive=self",), 2), (("train.feature_cache=device",), 1), (("scob.contrast=none",), 1)],
)
@pytest.mark.parametrize("share", [1, 0.5])
def test_a_steps_forwards_and_synchronisations(
    experiment_of: Any, words: tuple[str, ...], views: int, share: float
) -> None:
    experiment = experiment_of("scob.init_epochs=0", f"scob.contrasted={share}", *words)
    row = measure_step(experiment, 1)
    assert row.pop("milliseconds") > 0
    left_out = 0.0 if "scob.contrast=none" in words else share_of_repeated_views(experiment)
    assert 0 < left_out < 1 or "scob.contrast=none" in words
    clean = experiment.source.cache is None  # of all images; the other views only of those that are contrasted
    forwards = clean + share * (views - clean)
    assert row == {"backbone_forwards": forwards - left_out, "backbone_backwards": 0, "synchronisations": 0}


def share_of_repeated_views(experiment: Any) -> float:
    """The images of the measured step, the second, whose strong view is a clean view: a CPU leaves it out."""
    batch = with_images(experiment, 1)
    views, keys = experiment.source.views, experiment.method.contrasted(batch).keys
    repeated = ~views.recoloured(keys)
    if experiment.source.cache is None:  # the cache has the mirror image too
        repeated &= views.flips(keys, "clean") == views.flips(keys, "strong")
    return min(int(repeated.sum()), len(keys) - 1) / len(batch.rows)  # one is always computed


def test_gradients_of_a_backbone_that_learns_are_counted(experiment_of: Any) -> None:
    row = measure_step(experiment_of("scob.init_epochs=0", "model.freeze=none"), 1)
    assert row["backbone_forwards"] == 3
    assert row["backbone_backwards"] > 0


@pytest.mark.slow
def test_every_variant_of_a_step_is_measured(tiny_backbone: Path) -> None:
    rows = bench_step("cpu", batch=8, size=64, backbone=str(tiny_backbone), repeats=1)
    data, processes = random_data(64, 64), Processes()
    plain, kept = (
        share_of_repeated_views(build(bench_config(str(tiny_backbone), 8, 64, **words), data, processes))
        for words in ({}, {"feature_cache": "device"})
    )
    assert 0 < plain < kept < 1
    assert [r["backbone_forwards"] for r in rows] == [3 - plain, 2 - plain, 1 - kept, 1]


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
