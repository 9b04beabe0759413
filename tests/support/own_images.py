"""Somebody's own images: a few pictures on disk, and a small network prepared for them."""

from pathlib import Path

import numpy as np
from PIL import Image

from scob.training.prepare import Prepared, prepare
from support.small_model import Small

SMALL = ("model.width=32", "model.heads=2", "model.layers=1", "model.feedforward=32", "model.projection=16",
         "data.workers=0")  # fmt: skip


def picture(path: Path, size: tuple[int, int] = (40, 40)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size[::-1], 3), hash(path.name) % 256, np.uint8)).save(path)


def prepared(source: Path, small: Small, *words: str, **how: object) -> Prepared:
    return prepare(source, backbone=str(small.backbone), device="cpu", overrides=(*SMALL, *words), **how)  # type: ignore[arg-type]
