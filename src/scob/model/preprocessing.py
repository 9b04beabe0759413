"""The mean and the deviation that a backbone's inputs are normalised by: its own, not always ImageNet's."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scob.data.images import IMAGENET_MEAN, IMAGENET_STD
from scob.errors import UserError
from scob.model.embedded import backbone_path
from scob.model.hub import fetch_file

PREPROCESSING = "preprocessor_config.json"
PROCESSOR = "processor_config.json"  # newer folders have the image processor in here

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]

CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
# For folders without such a file: what models of these kinds are trained with if it is not ImageNet's.
USUAL: dict[str, Normalisation] = {
    "clip": CLIP, "clip_vision_model": CLIP, "siglip": HALF, "siglip_vision_model": HALF, "siglip2": HALF,
    "siglip2_vision_model": HALF, "vit": HALF, "beit": HALF,
}  # fmt: skip


def preprocessing(name: str) -> Normalisation:
    """Mean and deviation, for pixels from 0 to 1, of a backbone's inputs: as its folder or its hub repository says.

    If there is no such file, what is usual for models of its kind.
    """
    path = backbone_path(name)
    if path.is_file():
        return IMAGENET_MEAN, IMAGENET_STD  # torchvision's ResNets
    for file in _files(path, name, PREPROCESSING, PROCESSOR):
        stored = _read(file)
        if file.name == PREPROCESSING or "image_processor" in stored:  # else it is about text
            return normalisation(stored, file)
    for file in _files(path, name, "config.json"):
        return USUAL.get(str(_read(file).get("model_type")), (IMAGENET_MEAN, IMAGENET_STD))
    return IMAGENET_MEAN, IMAGENET_STD


def normalisation(stored: Mapping[str, Any], file: Path) -> Normalisation:
    """What an image processor's settings do to a pixel, as a mean and a deviation for pixels from 0 to 1."""
    try:
        stored = stored.get("image_processor") or stored
        scale = 255 * float(stored.get("rescale_factor", 1 / 255)) if stored.get("do_rescale", True) else 255.0
        normalise = stored.get("do_normalize", True)
        mean = tuple(float(value) for value in (stored["image_mean"] if normalise else (0, 0, 0)))
        std = tuple(float(value) for value in (stored["image_std"] if normalise else (1, 1, 1)))
        usable = all(map(math.isfinite, (*mean, *std, scale))) and len(mean) == len(std) == 3
        if not usable or min(std) <= 0 or scale <= 0:
            raise ValueError("three numbers each, the deviations and the scale above 0")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(f"{file} does not give image_mean and image_std: {error}") from error
    if abs(scale - 1) < 1e-6:
        return mean, std
    return tuple(m / scale for m in mean), tuple(s / scale for s in std)


def _files(folder: Path, name: str, *files: str) -> Iterator[Path]:
    """Those of `files` that a backbone folder, or a hub repository if there is no such folder, has."""
    for file in files:
        path = folder / file if folder.is_dir() else fetch_file(name, file)
        if path is not None and path.is_file():
            yield path


def _read(file: Path) -> dict[str, Any]:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} cannot be read: {error}") from error
    if not isinstance(stored, dict):
        raise UserError(f"{file} does not give image_mean and image_std: it is not a JSON object")
    return stored
