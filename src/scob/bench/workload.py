"""What the benches run on: a ResNet-50 with random weights, random images, and CUDA graphs of a call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scob.config import Config, resolve
from scob.data.split import ArrayImages, Split
from scob.labels import Labels
from scob.training.run_data import Data

CLASSES = 20


def random_resnet(folder: Path) -> str:
    """Save a ResNet-50 with random weights as a backbone folder: speed does not depend on the weights."""
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.manual_seed(0)
    ResNetBackbone(ResNetConfig(out_features=["stage3", "stage4"])).save_pretrained(folder)
    return str(folder)


def random_data(images: int, size: int) -> Data:
    """Noise images with one label each."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (images, size, size, 3), dtype=np.uint8)
    names = tuple(f"noise-{n}" for n in range(images))
    values = np.zeros((images, CLASSES), dtype=np.int8)
    values[np.arange(images), np.arange(images) % CLASSES] = 1
    labels = Labels(tuple(f"class {c}" for c in range(CLASSES)), names, values)
    split = Split("train", labels, ArrayImages(pixels, "noise"))
    return Data(split, None, None, labels, None, labels, 1.5)


def bench_config(backbone: str, batch: int, size: int, **train: Any) -> Config:
    """Scob from its first contrastive epoch on, with no checkpoints and no logging in between."""
    return resolve(
        {
            "data": {"size": size, "workers": 0},
            "model": {"backbone": backbone, "calibrate_bn": False},
            "scob": {"init_epochs": 0},
            "train": {
                "batch": batch,
                "epochs": 1000,
                "log_every": 10**6,
                "checkpoint_minutes": 0,
                "compile": False,
                "feature_cache": "none",
                **train,
            },
        }
    )


def replayed(run: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """`run` as a CUDA graph; on other devices `run` itself."""
    if device.type != "cuda":
        return run
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay
