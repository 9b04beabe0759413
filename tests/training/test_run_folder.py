"""The run folder: its files, its lock and its log."""

from typing import Any


def test_a_run_folder_holds_everything(run_small: Any) -> None:
    names = {p.name for p in run_small().iterdir()}
    assert names >= {"config.yaml", "labels.safetensors", "metrics.jsonl", "summary.json", "model", "tensorboard"}
    assert list((run_small() / "tensorboard").iterdir())
