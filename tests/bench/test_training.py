"""Training speed, on a tiny backbone."""

from pathlib import Path

from scob.bench.training import bench_train


def test_training_is_timed_next_to_the_backbone(tiny_backbone: Path) -> None:
    rows = bench_train("cpu", (4,), 64, str(tiny_backbone), repeats=1)
    assert [(row["batch"], row["step"]) for row in rows] == [(4, "plain"), (4, "kept features")]
    assert all(row["images_per_second"] > 0 and row["ratio_to_forward"] > 0 for row in rows)
    assert len({row["backbone_forward_ms"] for row in rows}) == 1  # measured once per batch size
