"""Train the embedded backbone: a small ResNet that learns to name single drawn objects, as others learn on ImageNet.

    python scripts/train_drawings.py            # writes src/scob/model/drawings/{config.json, model.safetensors}
    python scripts/train_drawings.py --probe    # only measures the stored backbone, frozen, on the scenes

Each render shows one object, of the scenes' classes or of eight more. Seed and splits differ from the scenes'.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.data import DataLoader, Dataset
from torchmetrics.functional.classification import multilabel_average_precision
from transformers import ResNetBackbone, ResNetConfig

from scob.data.scenes import composition as scenes
from scob.data.scenes.drawing import develop, draw_background, draw_object
from scob.data.scenes.outlines import (
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    Part,
    bar,
    between,
    box,
    chance,
    disc,
    ring,
    whole,
)
from scob.data.scenes.shapes import SHAPES, Shape
from scob.draws import seed_key
from scob.labels import Labels

FOLDER = Path(__file__).parents[1] / "src" / "scob" / "model" / "drawings"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHASES = ((48, 64_000), (64, 48_000), (96, 16_000))  # side in pixels, number of renders; small ones are cheap
RAMP = 48_000  # renders until full difficulty; the first ones are easy: a large object on a faint background
HELD_OUT = 4_000


def heart(random: Random) -> list[Part]:
    low = between(random, 0.8, 0.98)
    return [
        (FIRST, disc(-0.42, -0.35, 0.48)),
        (FIRST, disc(0.42, -0.35, 0.48)),
        (FIRST, [(-0.86, -0.15), (0.0, -0.4), (0.86, -0.15), (0.0, low)]),
    ]


def arrow(random: Random) -> list[Part]:
    half, neck = between(random, 0.1, 0.22), between(random, 0.1, 0.4)
    return [(FIRST, box(-0.95, -half, neck + 0.05, half)), (SECOND, [(neck, -0.6), (0.98, 0.0), (neck, 0.6)])]


def mushroom(random: Random) -> list[Part]:
    half, edge = between(random, 0.18, 0.3), between(random, -0.05, 0.15)
    parts: list[Part] = [(SECOND, [(-half, edge), (half, edge), (half * 1.3, 0.95), (-half * 1.3, 0.95)])]
    parts.append((FIRST, disc(0.0, edge, 0.92, 0.9, 0.5, 0.5)))
    return [*parts, *((THIRD, disc(x, edge - 0.35, 0.13)) for x in (-0.45, 0.0, 0.45))]


def lamp(random: Random) -> list[Part]:
    top = between(random, 0.2, 0.45)
    return [
        (SECOND, bar((0.0, -0.2), (0.0, 0.9), 0.12)),
        (THIRD, box(-0.45, 0.82, 0.45, 0.98)),
        (FIRST, [(-top, -0.95), (top, -0.95), (0.75, -0.1), (-0.75, -0.1)]),
    ]


def rocket(random: Random) -> list[Part]:
    half = between(random, 0.22, 0.34)
    return [
        (SECOND, [(-half, 0.2), (-0.7, 0.8), (-half, 0.65)]),
        (SECOND, [(half, 0.2), (0.7, 0.8), (half, 0.65)]),
        (FOURTH, [(-half * 0.6, 0.65), (0.0, 0.98), (half * 0.6, 0.65)]),
        (FIRST, [(-half, -0.4), (half, -0.4), (half, 0.7), (-half, 0.7)]),
        (SECOND, [(-half, -0.4), (0.0, -0.98), (half, -0.4)]),
        (THIRD, disc(0.0, -0.1, half * 0.55)),
    ]


def crown(random: Random) -> list[Part]:
    dip = between(random, -0.1, 0.15)
    spikes = [(-0.9, -0.6), (-0.42, dip), (0.0, -0.75), (0.42, dip), (0.9, -0.6), (0.75, 0.6), (-0.75, 0.6)]
    return [(FIRST, spikes), (SECOND, box(-0.76, 0.42, 0.76, 0.66)), (THIRD, disc(0.0, 0.2, 0.12))]


def ladder(random: Random) -> list[Part]:
    half, width = between(random, 0.28, 0.42), between(random, 0.1, 0.15)
    parts: list[Part] = [(SECOND, bar((-half, y), (half, y), width)) for y in (-0.7, -0.35, 0.0, 0.35, 0.7)]
    return [*parts, *((FIRST, bar((x, -0.98), (x * 1.15, 0.98), width)) for x in (-half, half))]


def glasses(random: Random) -> list[Part]:
    radius, width = between(random, 0.34, 0.42), between(random, 0.1, 0.16)
    parts = ring(FIRST, -0.52, 0.0, radius, width) + ring(FIRST, 0.52, 0.0, radius, width)
    parts += [
        (SECOND, bar((-0.18, -0.05), (0.18, -0.05), width)),
        (SECOND, bar((0.85, 0.0), (0.98, -0.3), width)),
    ]
    return [*parts, (SECOND, bar((-0.85, 0.0), (-0.98, -0.3), width))]


EXTRA: tuple[Shape, ...] = (heart, arrow, mushroom, lamp, rocket, crown, ladder, glasses)
KINDS: tuple[Shape, ...] = (*SHAPES.values(), *EXTRA)


def render(key: int, size: int, level: float = 1.0) -> tuple[NDArray[np.uint8], int]:
    """A picture of one object somewhere on a cluttered background, and its kind; easy at level 0."""
    random = Random(key)
    kind = whole(random, 0, len(KINDS) - 1)
    canvas = draw_background(random, size)
    mean = canvas.mean(axis=(1, 2), keepdims=True)
    canvas = (mean + (canvas - mean) * level).astype(np.int16)
    least = 0.6 - 0.35 * level
    patch = draw_object(random, KINDS[kind](random), round(between(random, least, 0.95) * size))
    height, width = patch.cover.shape
    left = round(between(random, -0.15 * width, size - 0.85 * width))
    top = round(between(random, -0.15 * height, size - 0.85 * height))
    patch.over(canvas, left, top)
    if chance(random, 0.3 * level):  # something in the way
        extent = round(between(random, 0.15, 0.4) * size)
        hurdle = draw_object(random, [(1, bar((-1.0, 0.0), (1.0, 0.0), between(random, 0.1, 0.3)))], extent, 180)
        hurdle.over(canvas, whole(random, 0, size), whole(random, 0, size))
    return develop(random, canvas), kind


class Renders(Dataset[tuple[NDArray[np.uint8], int]]):
    """The renders of one split."""

    def __init__(self, seed: int, split: str, count: int, size: int, ramp: int = 0) -> None:
        self.seed, self.split, self.count, self.size, self.ramp = seed, split, count, size, ramp

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], int]:
        level = min(1.0, index / self.ramp) if self.ramp else 1.0
        return render(seed_key(self.seed, "render", self.split, index), self.size, level)


def batches(data: Renders, size: int, workers: int, device: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Normalised images (B, 3, H, W) and kinds (B,)."""
    for images, kinds in DataLoader(data, batch_size=size, num_workers=workers, prefetch_factor=8):
        yield normalise(images.to(device)), kinds.to(device)


def normalise(images: Tensor) -> Tensor:
    """(B, H, W, 3) uint8 -> (B, 3, H, W), normalised as for ImageNet backbones."""
    mean, std = torch.tensor(MEAN, device=images.device), torch.tensor(STD, device=images.device)
    scaled = (images.float() / 255 - mean) / std
    return scaled.permute(0, 3, 1, 2)  # channels-last in memory


class Classifier(nn.Module):
    """The backbone with a linear head on the mean of each tap; stage 2 has one too, so it is trained too."""

    def __init__(self, backbone: ResNetBackbone, kinds: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleList(nn.Linear(width, kinds) for width in backbone.channels)

    def forward(self, images: Tensor) -> list[Tensor]:
        maps = self.backbone(images).feature_maps
        return [head(tap.mean(dim=(2, 3))) for head, tap in zip(self.heads, maps, strict=True)]


def train(seed: int, batch: int, rate: float, times: int, workers: int, device: str, folder: Path) -> Classifier:
    """Train on the renders; the backbone is saved after every phase."""
    torch.manual_seed(seed)
    config = ResNetConfig(
        embedding_size=32,
        hidden_sizes=[32, 64, 160],
        depths=[1, 2, 2],
        layer_type="basic",
        out_features=["stage2", "stage3"],
    )
    model = Classifier(ResNetBackbone(config), len(KINDS)).to(device, memory_format=torch.channels_last)
    steps = sum(times * count // batch for _, count in PHASES)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1, pct_start=0.1)
    step, right, seen, start = 0, torch.zeros((), device=device), 0, time.monotonic()
    for phase, (size, count) in enumerate(PHASES):
        ramp = RAMP if phase == 0 else 0
        renders = Renders(seed, f"train-{size}", times * count // batch * batch, size, ramp)
        for images, kinds in batches(renders, batch, workers, device):
            early, late = model(images)
            loss = cross_entropy(late, kinds, label_smoothing=0.05) + 0.3 * cross_entropy(early, kinds)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            step, right, seen = step + 1, right + (late.detach().argmax(1) == kinds).sum(), seen + len(kinds)
            if step % 100 == 0:
                spent = time.monotonic() - start
                print(f"step {step}/{steps} side {size} accuracy {float(right) / seen:.3f} {spent:.0f} s", flush=True)
                right, seen = torch.zeros((), device=device), 0
        store(model, folder)
    return model.eval()


@torch.inference_mode()
def accuracy(model: Classifier, seed: int, size: int, workers: int, device: str) -> float:
    """Share of held-out renders that are named correctly."""
    right = sum(
        float((model(images)[-1].argmax(1) == kinds).sum())
        for images, kinds in batches(Renders(seed, f"held-out-{size}", HELD_OUT, size), 100, workers, device)
    )
    return right / HELD_OUT


def store(model: Classifier, folder: Path) -> None:
    """Save in half precision; the config still asks for float32, which is faster on a CPU."""
    model.backbone.half().save_pretrained(folder)
    model.backbone.float()
    model.backbone.config.dtype = "float32"
    model.backbone.config.architectures = ["ResNetBackbone"]
    model.backbone.config.save_pretrained(folder)


@torch.inference_mode()
def pooled(backbone: ResNetBackbone, images: NDArray[np.uint8]) -> Tensor:
    """Mean and maximum of both taps, not yet standardised: (N, 2 * (C2 + C3))."""
    rows = []
    for start in range(0, len(images), 50):
        maps = backbone(normalise(torch.from_numpy(images[start : start + 50]))).feature_maps
        rows.append(torch.cat([m.mean((2, 3)) for m in maps] + [m.amax((2, 3)) for m in maps], dim=1))
    return torch.cat(rows)


def probe(backbone: ResNetBackbone, seed: int) -> dict[str, float]:
    """mAP on the validation scenes of a linear classifier on the frozen backbone, by the labels it was trained on."""
    drawn = {split: scenes.draw(count, 128, 0, split) for split, count in (("train", 2000), ("val", 1000))}
    features = {split: pooled(backbone, part.images) for split, part in drawn.items()}
    mean, std = features["train"].mean(0), features["train"].std(0) + 1e-6
    known = {split: torch.from_numpy(part.values() > 0) for split, part in drawn.items()}
    names = tuple(f"train-{row:06d}" for row in range(2000))  # as the reader names them
    single = Labels(scenes.CLASSES, names, drawn["train"].values()).single_positive(seed).values
    found = {}
    for name, target in (("full", known["train"]), ("single positive", torch.from_numpy(single > 0))):
        torch.manual_seed(seed)
        head = nn.Linear(features["train"].shape[1], len(scenes.CLASSES))
        optimiser = torch.optim.AdamW(head.parameters(), lr=3e-3, weight_decay=0.3)
        for _ in range(40):
            for rows in torch.randperm(2000).split(50):
                logits = head((features["train"][rows] - mean) / std)
                optimiser.zero_grad()
                binary_cross_entropy_with_logits(logits, target[rows].float()).backward()
                optimiser.step()
        scores = head((features["val"] - mean) / std)
        average = multilabel_average_precision(scores, known["val"].long(), len(scenes.CLASSES))
        found[name] = 100 * float(average)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--times", type=int, default=1, help="multiply the number of renders, on a faster machine")
    parser.add_argument("--workers", type=int, default=1, help="number of drawing processes")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch; drawing takes another core")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--probe", action="store_true", help="only measure the stored backbone on the scenes")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.probe:
        model = train(
            options.seed, options.batch, options.rate, options.times, options.workers, options.device, options.folder
        )
        for size in (64, 96, 128):
            share = accuracy(model, options.seed, size, options.workers, options.device)
            print(f"held-out accuracy at {size} px: {100 * share:.1f}%", flush=True)
    backbone = ResNetBackbone.from_pretrained(options.folder).eval()
    for name, score in probe(backbone, 0).items():
        print(f"linear probe on the scenes, {name} labels: mAP {score:.1f}", flush=True)


if __name__ == "__main__":
    main()
