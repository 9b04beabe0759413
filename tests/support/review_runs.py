"""Runs on folders of photographs, for tests that recover and review their labels."""

from pathlib import Path

from scob.inference.model import InferenceOptions
from scob.training.prepare import Prepared, prepare
from scob.training.train import SharedParts, train
from support.small_model import Small

CPU = InferenceOptions(device="cpu")


def train_on(photos: Path, small: Small, run: Path) -> Prepared:
    """A run of one epoch on a folder of photographs."""
    words = ("train.epochs=1", "data.workers=0", "model.layers=1", "scob.init_epochs=0")
    ready = prepare(photos, backbone=str(small.backbone), device="cpu", estimate=False, overrides=words)
    train(ready.config, run, shared=SharedParts(ready.data))
    return ready
