"""Prediction speed, on a tiny backbone."""

from pathlib import Path

from scob.bench.predicting import bench_predict


def test_predictions_are_timed_next_to_the_backbone_and_agree(tiny_backbone: Path) -> None:
    [row] = bench_predict("cpu", (2,), 64, str(tiny_backbone))
    assert row["batch"] == 2
    assert row["network_ms"] > row["backbone_ms"] > 0
    assert row["largest_difference"] < 1e-4  # fp32 on a CPU
