"""What many tests share: a tiny random backbone, drawn scenes at 64 pixels, and runs of a second."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
# The same examples each time: a suite that was green stays green. Whoever asks for more gets others.
hypothesis.settings.register_profile("fixed", derandomize="SCOB_FUZZ_EXAMPLES" not in os.environ, deadline=None)
hypothesis.settings.load_profile("fixed")

pytest_plugins = ("support.small_model", "support.interrupted")
Words = tuple[str, ...]


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random three-stage ResNet: 8x8x16 and 4x4x32 features of a 64 pixel image."""
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone

    folder = tmp_path_factory.mktemp("backbone")
    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 32], depths=[1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3"],
    )  # fmt: skip
    ResNetBackbone(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def small_words(tiny_backbone: Path) -> Words:
    """Settings of a run of 20 steps: 40 scenes, 4 epochs of 5 steps."""
    return (
        "data.source=scenes:40x64", "data.size=64", "data.workers=0", "data.evaluate=",
        f"model.backbone={tiny_backbone}", "model.width=32", "model.heads=4", "model.feedforward=64",
        "model.layers=1", "model.projection=16", "scob.momentum=0.9", "train.device=cpu", "train.batch=8",
        "train.epochs=4", "train.holdout=0", "train.lr_smt=1e-3", "train.checkpoint_minutes=0",
        "train.log_every=1", "train.compile=false", "train.feature_cache=none",
    )  # fmt: skip


@pytest.fixture(scope="session")
def configure(small_words: Words) -> Callable[..., Any]:
    """`configure("scob.tau=1", ...)`: the small settings with changes."""
    from scob import methods
    from scob.config import load_config

    return lambda *words: load_config(None, [*small_words, *words], methods.section_names())


@pytest.fixture(scope="session")
def scenes_of(configure: Callable[..., Any]) -> Callable[..., Any]:
    """The data of a configuration, drawn once for equal data and label settings."""
    from scob.training.run_data import load_data

    drawn: dict[str, Any] = {}

    def load(config: Any) -> Any:
        key = f"{config.data} {config.labels} {config.train.holdout} {config.method == 'full'}"
        if key not in drawn:
            drawn[key] = load_data(config)
        return drawn[key]

    return load


@pytest.fixture(scope="session")
def run_small(
    configure: Callable[..., Any], scenes_of: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """`run_small("scob.tau=1")`: trains with those changes, once for each set of them; returns the run folder."""
    from scob.training.train import SharedParts, train

    done: dict[Words, Path] = {}

    def run(*words: str, again: bool = False) -> Path:
        if words in done and not again:
            return done[words]
        config = configure(*words)
        folder = tmp_path_factory.mktemp("run") / "run"
        train(config, folder, shared=SharedParts(scenes_of(config)))
        return done.setdefault(words, folder)

    return run


@pytest.fixture(scope="session")
def experiment_of(configure: Callable[..., Any], scenes_of: Callable[..., Any]) -> Callable[..., Any]:
    """`experiment_of("scob.positive=self")`: a new experiment, ready to step."""
    from scob.parallel import Processes
    from scob.training.build import build

    def make(*words: str) -> Any:
        config = configure(*words)
        return build(config, scenes_of(config), Processes())

    return make
