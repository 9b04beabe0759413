"""Prediction speed, on a tiny backbone."""

from pathlib import Path

import torch

from scob.bench.predicting import bench_predict, fast_network


def test_predictions_are_timed_next_to_the_backbone_and_agree(tiny_backbone: Path) -> None:
    [row] = bench_predict("cpu", (2,), 64, str(tiny_backbone))
    assert row["batch"] == 2
    assert row["network_ms"] > row["backbone_ms"] > 0
    assert row["largest_difference"] < 1e-4  # fp32 on a CPU


def test_the_fast_network_is_a_copy(experiment_of) -> None:  # type: ignore[no-untyped-def]
    network = experiment_of().network.eval()
    before = [p.clone() for p in network.parameters()]
    fast = fast_network(network, torch.float64)
    assert all(p.dtype == torch.float64 for p in fast.parameters())
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))
