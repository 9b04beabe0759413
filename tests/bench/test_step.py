"""The benches measure what they say."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.bench.step import bench_ipt, bench_step, count_waits, full_tree, measure_step
from scob.cli.bench import whole_numbers
from scob.config import ModelSettings
from scob.errors import UserError
from scob.model.smt import EncoderLayer, SemanticMaskedTransformer


def test_the_tree_is_measured_at_every_size() -> None:
    rows = bench_ipt("cpu", (4, 9), (2, 3), batch=3, count=2, dimension=5, repeats=2, memory=4 * 9 * 4 * 4)
    assert [(r["capacity"], r["classes"]) for r in rows] == [(4, 2), (4, 3), (9, 2), (9, 3)]
    assert all(r["insert_ms"] > 0 and r["top_ms"] > 0 for r in rows)
    assert [r["dimension"] for r in rows] == [5, 5, 5, 4]  # what the memory holds


def test_a_full_tree_is_full_and_a_tree() -> None:
    tree = full_tree(3, 4, 2, torch.device("cpu"))
    assert (tree.ids[:-1] >= 0).all()
    tree.insert(torch.tensor([1]), torch.tensor([2.0]), torch.tensor([5]), torch.ones(1, 2))  # a revisit
    assert (tree.ids == 5).sum() == 1
    features, exist = tree.top(1)
    assert exist.all()
    assert features[1, 0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("words", "forwards"),
    [((), 3), (("scob.positive=self",), 2), (("train.feature_cache=device",), 1), (("scob.contrast=none",), 1)],
)
def test_a_steps_forwards_and_synchronisations(experiment_of: Any, words: tuple[str, ...], forwards: int) -> None:
    row = measure_step(experiment_of("scob.init_epochs=0", *words), 1)
    assert row.pop("milliseconds") > 0
    assert row == {"backbone_forwards": forwards, "backbone_backwards": 0, "synchronisations": 0}


def test_a_backbone_that_learns_is_seen_to(experiment_of: Any) -> None:
    row = measure_step(experiment_of("scob.init_epochs=0", "model.freeze=none"), 1)
    assert row["backbone_forwards"] == 3
    assert row["backbone_backwards"] > 0


@pytest.mark.slow
def test_the_whole_bench_of_a_step(tiny_backbone: Path) -> None:
    rows = bench_step("cpu", batch=4, size=64, backbone=str(tiny_backbone), repeats=1)
    assert [r["backbone_forwards"] for r in rows] == [3, 2, 1, 1]


def test_a_wait_is_counted() -> None:
    values = torch.ones(3)
    assert count_waits(lambda: float(values.sum()), torch.device("cpu")) == 1
    assert count_waits(lambda: values[values > 0], torch.device("cpu")) == 1
    assert count_waits(lambda: values * 2, torch.device("cpu")) == 0


def test_lists_of_numbers() -> None:
    assert whole_numbers("80,800") == (80, 800)
    for wrong in ("", "80;800", "0", "a"):
        with pytest.raises(UserError):
            whole_numbers(wrong)


def test_a_wait_inside_the_masked_transformer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU it chooses cells by value, which is no wait; what its layers do runs on a GPU too."""
    smt = SemanticMaskedTransformer(4, (3, 3), ModelSettings(width=8, heads=2, feedforward=8, layers=1))
    features, keep = torch.randn(2, 4, 3, 3), torch.eye(3, dtype=torch.bool).expand(2, 3, 3)
    cpu = torch.device("cpu")
    assert count_waits(lambda: smt(features, keep), cpu) == 0
    feed = EncoderLayer.feed
    monkeypatch.setattr(EncoderLayer, "feed", lambda self, x: feed(self, x) * float(bool(x.sum().item() < 1e9)))
    assert count_waits(lambda: smt(features, keep), cpu) > 0
