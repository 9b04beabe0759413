"""What a step and a prediction cost on this machine, beside the bare backbone measured in the same run."""

import copy
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scob.config import Config, resolve
from scob.data.split import ArrayImages, Split
from scob.labels import Labels
from scob.model.backbone import Features
from scob.model.features import autocast
from scob.model.fold import fast_copy
from scob.parallel import Processes, start
from scob.training.build import build
from scob.training.loop import Training
from scob.training.run_data import Data
from scob.training.run_folder import RunFolder

CLASSES = 20


def median_seconds(run: Callable[[], object], device: torch.device, repeats: int = 20, warm: int = 5) -> float:
    """Median wall time of `run`, the device's work included."""
    for _ in range(warm):
        run()
    times = []
    for _ in range(repeats):
        _wait(device)
        began = time.perf_counter()
        run()
        _wait(device)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def replayed(run: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """`run` as a CUDA graph; as it is on other devices."""
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


def random_resnet(folder: Path) -> str:
    """A ResNet-50 with random weights as a backbone folder: speed does not depend on what it knows."""
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.manual_seed(0)
    ResNetBackbone(ResNetConfig(out_features=["stage3", "stage4"])).save_pretrained(folder)
    return str(folder)


def random_data(images: int, size: int) -> Data:
    """Noise with one label an image."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (images, size, size, 3), dtype=np.uint8)
    names = tuple(f"noise-{n}" for n in range(images))
    values = np.zeros((images, CLASSES), dtype=np.int8)
    values[np.arange(images), np.arange(images) % CLASSES] = 1
    labels = Labels(tuple(f"class {c}" for c in range(CLASSES)), names, values)
    split = Split("train", labels, ArrayImages(pixels, "noise"))
    return Data(split, None, None, labels, None, labels, 1.5)


def settings(backbone: str, batch: int, size: int, **train: Any) -> Config:
    return resolve(
        {
            "data": {"size": size, "workers": 0},
            "model": {"backbone": backbone, "calibrate_bn": False},
            "scob": {"init_epochs": 0},
            "train": {"batch": batch, "epochs": 1000, "log_every": 10**6, "checkpoint_minutes": 0, **train},
        }
    )


def time_training(config: Config, data: Data, processes: Processes, repeats: int) -> float:
    """Images a second of whole training steps, augmentation and everything else included."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = build(config, data, processes, folder=Path(folder))
        training = Training(experiment, RunFolder(Path(folder)))
        experiment.method.train()
        epoch = 0
        batches = training.batches(epoch, 0)

        def one() -> None:
            nonlocal epoch, batches
            batch = next(batches, None)
            if batch is None:
                epoch += 1
                batches = training.batches(epoch, 0)
                batch = next(batches)
            training.iterate(batch)

        for _ in range(6):
            one()
        _wait(processes.device)
        began = time.perf_counter()
        for _ in range(repeats):
            one()
        _wait(processes.device)
        seconds = time.perf_counter() - began
        training.close()
    return repeats * config.train.batch / seconds


def bench_train(
    device: str = "auto",
    batches: tuple[int, ...] = (8, 64),
    size: int = 448,
    backbone: str = "",
    repeats: int = 30,
    report: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """Images a second of training Scob with class positives: as it is, as a CUDA graph, with kept features."""
    processes = start(device)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        name = backbone or random_resnet(Path(folder))
        for batch in batches:
            data = random_data(max(2 * batch, 128) // batch * batch, size)
            bare = settings(name, batch, size)
            experiment = build(bare, data, processes)
            picture = torch.randn(batch, 3, size, size, device=processes.device)
            forward = median_seconds(
                replayed(lambda e=experiment, p=picture: e.source.of(p), processes.device),  # type: ignore[misc]
                processes.device,
            )
            del experiment
            variants: list[tuple[str, dict[str, Any]]] = [("plain", {})]
            if processes.device.type == "cuda":
                variants.append(("graph", {"compile": True}))
            variants.append(("kept features", {"feature_cache": "device"}))
            if processes.device.type == "cuda":
                variants.append(("graph, kept features", {"compile": True, "feature_cache": "device"}))
            for label, extra in variants:
                rate = time_training(settings(name, batch, size, **extra), data, processes, repeats)
                row = {
                    "batch": batch,
                    "step": label,
                    "images_per_second": round(rate, 1),
                    "milliseconds": round(1000 * batch / rate, 2),
                    "backbone_forward_ms": round(1000 * forward, 2),
                    "ratio_to_forward": round(batch / rate / forward, 2),
                }
                rows.append(row)
                report(row)
                if processes.device.type == "cuda":
                    torch.cuda.empty_cache()
    return rows


@torch.no_grad()
def bench_predict(
    device: str = "auto", batches: tuple[int, ...] = (1, 64), size: int = 448, backbone: str = ""
) -> list[dict[str, Any]]:
    """Milliseconds of the whole network and of the bare backbone, each at its own fastest, in one run."""
    processes = start(device)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        name = backbone or random_resnet(Path(folder))
        config = settings(name, 8, size)
        data = random_data(16, size)
        for batch in batches:
            experiment = build(config, data, processes)
            network = experiment.network.eval()
            images = torch.randn(batch, 3, size, size, device=processes.device)
            images = images.contiguous(memory_format=torch.channels_last)
            precision = experiment.source.precision
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            fast = fast_network(network, dtype)
            plain = lambda n=network, i=images, p=precision: _run_plain(n, i, p)  # noqa: E731
            low = images.to(dtype)
            whole: Callable[[], Tensor] = lambda f=fast, i=low: f(i)  # type: ignore[misc]  # noqa: E731
            bare: Callable[[], Features] = lambda f=fast, i=low: f.backbone(i)  # type: ignore[misc]  # noqa: E731
            whole_s = min(
                median_seconds(whole, processes.device),
                median_seconds(replayed(whole, processes.device), processes.device),
            )
            bare_s = min(
                median_seconds(bare, processes.device),
                median_seconds(replayed(bare, processes.device), processes.device),
            )
            difference = (whole().float().sigmoid() - plain().float().sigmoid()).abs().max()  # type: ignore[no-untyped-call]
            rows.append(
                {
                    "batch": batch,
                    "network_ms": round(1000 * whole_s, 3),
                    "backbone_ms": round(1000 * bare_s, 3),
                    "ratio": round(whole_s / bare_s, 3),
                    "plain_ms": round(1000 * median_seconds(plain, processes.device), 3),
                    "largest_difference": float(difference),
                }
            )
    return rows


def _run_plain(network: torch.nn.Module, images: Tensor, precision: str) -> Tensor:
    with autocast(images.device, precision):
        found: Tensor = network(images)
    return found


def fast_network(network: torch.nn.Module, dtype: torch.dtype) -> Any:
    """A copy of the network for inference: backbone folded, all weights in `dtype`."""
    made: Any = copy.deepcopy(network).eval()
    made.backbone = fast_copy(made.backbone, dtype)
    return made.to(dtype=dtype)
