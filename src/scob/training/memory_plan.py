"""Which of a run's tables go where, by what is free: training images, cached features, and what a step needs besides.

The decisions are pure functions of byte counts. When memory turns out to be short after all, a run takes one step down:
features from the device to the host to none, the captured step to the plain one, an evaluation batch to half of it.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from scob.config import Config
from scob.model.heads import Grids

DEVICE_SHARE = 0.9  # of the GPU memory that is free; the rest is for fragments and libraries
HOST_SHARE = 0.5  # of the main memory that is free
MOST_RESIDENT = 0.25  # of the GPU memory that is free, for the images of a split that is only evaluated
FEWEST_EPOCHS = 3  # caching computes every image twice, plain and mirrored
BYTES = {"bf16": 2, "fp32": 4, "fp64": 8}


@dataclass(frozen=True)
class FreeMemory:
    """Free bytes: `device` is None on a device that computes in main memory (a CPU)."""

    device: int | None
    host: int


@dataclass(frozen=True)
class Needs:
    """Bytes that a run could use: features of all splits, the training images as uint8, and a step besides."""

    features: int
    images: int
    step: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where features are cached (device, host, disk or none), and whether the training images stay on the device."""

    features: str
    resident: bool


def plan_memory(needs: Needs, free: FreeMemory, asked: str = "auto", captured: bool = False) -> MemoryPlan:
    """Where features and images go. `asked` is `auto`, or the place a run had before, which is kept if it can be.

    `captured`: the step could run as a CUDA graph, which needs the images on the device and cannot read features from
    the host. A graph without cached features is faster than a plain step with features from the host.
    """
    room = 0.0 if free.device is None else DEVICE_SHARE * free.device - needs.step
    on_device = free.device is not None and needs.features <= room
    on_host = needs.features <= HOST_SHARE * free.host
    both = on_device and needs.features + needs.images <= room
    if asked in ("none", "disk"):
        features = asked
    elif asked == "host" and on_host:
        features = "host"
    elif both or (on_device and asked == "device"):
        features = "device"
    elif asked == "auto" and captured and free.device is not None and needs.images <= room:
        features = "none"
    else:
        features = "device" if on_device else "host" if on_host else "none"
    taken = needs.features if features == "device" else 0
    return MemoryPlan(features, free.device is not None and taken + needs.images <= room)


def step_down(features: str) -> str:
    """The next place for features that do not fit: device, host, none."""
    return {"device": "host", "host": "none"}.get(features, "none")


def free_memory(device: torch.device, processes: int = 1) -> FreeMemory:
    """What is free now; the main memory is shared by the processes of a run."""
    import psutil

    on_device = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None
    host = min(int(psutil.virtual_memory().available), _left_to_container())
    return FreeMemory(on_device, host // processes)


def _left_to_container() -> int:
    """Bytes that a container's own limit (cgroup v2) leaves, without the files that it has cached."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="utf-8").strip()
        used = int((group / "memory.current").read_text(encoding="utf-8"))
        counts = dict(line.split() for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines())
        return max(0, int(limit) - used + int(counts.get("inactive_file", 0)))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return 1 << 62


def feature_bytes(channels: tuple[int, int], grids: Grids, images: int, precision: str) -> int:
    """Features of both stages, of every image and its mirror image."""
    cells = sum(c * height * width for c, (height, width) in zip(channels, grids, strict=True))
    return 2 * images * cells * BYTES[precision]


def step_bytes(config: Config, channels: tuple[int, int], grids: Grids) -> int:
    """A generous estimate of what a step allocates: three views in the backbone, two passes of the head with gradients.

    A backbone's widest maps have about 64 channels at half the input's side, and several are alive at once.
    """
    m, size = config.model, config.data.size
    cells = [height * width for height, width in grids]
    views = 3 * (size * size * (3 * 4 + 64) + sum(c * n for c, n in zip(channels, cells, strict=True))) * 4
    head = 2 * sum(cells) * m.layers * (16 * m.width + 4 * m.feedforward) * 4
    return (1 << 30) + config.train.batch * (views + head)


def worth_caching(config: Config, frozen: bool) -> bool:
    """Whether cached features save time: a backbone that learns changes them, and a short run hardly reads them."""
    return frozen and config.train.epochs >= FEWEST_EPOCHS


def gigabytes(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 5e7 else f"{count / 1e6:.0f} MB"
