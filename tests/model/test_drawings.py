"""The embedded backbone: small, stored in half precision, loadable offline, and worth having."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, ResNetBackbone

import scob
from scob.data.scenes.drawing import develop, draw_background, draw_object
from scob.data.scenes.shapes import SHAPES
from scob.draws import seed_key

FOLDER = Path(scob.__file__).parent / "model" / "drawings"
MEAN, STD = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))


@pytest.fixture(scope="module")
def backbone() -> ResNetBackbone:
    config = AutoConfig.from_pretrained(FOLDER, local_files_only=True)
    return ResNetBackbone.from_pretrained(FOLDER, config=config, local_files_only=True).eval()


def test_it_is_small_and_stored_in_half_precision() -> None:
    weights = FOLDER / "model.safetensors"
    assert weights.stat().st_size <= 4 * 2**20
    with safe_open(weights, framework="pt") as file:
        kinds = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 (not a dict)
    assert kinds <= {torch.float16, torch.int64}


def test_it_loads_as_float32_with_two_taps(backbone: ResNetBackbone) -> None:
    assert sum(p.numel() for p in backbone.parameters()) <= 1_900_000
    assert {p.dtype for p in backbone.parameters()} == {torch.float32}
    with torch.inference_mode():
        maps = backbone(torch.zeros(1, 3, 128, 128)).feature_maps
    assert backbone.config.out_features == ["stage2", "stage3"]
    assert [tuple(m.shape[2:]) for m in maps] == [(16, 16), (8, 8)]


def test_its_features_tell_the_objects_apart(backbone: ResNetBackbone) -> None:
    """Nearest class mean, each render left out of its own class's mean: far above the 1 in 16 of chance."""
    each = 12
    features = torch.cat([_features(backbone, name, each) for name in SHAPES])
    kinds = torch.arange(len(SHAPES)).repeat_interleave(each)
    sums = torch.stack([features[kinds == kind].sum(0) for kind in range(len(SHAPES))])
    right = 0
    for row, feature in enumerate(features):
        means = sums / each
        means[kinds[row]] = (sums[kinds[row]] - feature) / (each - 1)
        right += int((means - feature).square().sum(1).argmin() == kinds[row])
    assert right / len(features) > 0.6


def _features(backbone: ResNetBackbone, name: str, count: int) -> Tensor:
    """Stage 3 averaged over large renders of one class: (count, C)."""
    images = []
    for index in range(count):
        random = Random(seed_key("test of the drawings", name, index))
        canvas, patch = draw_background(random, 96), draw_object(random, SHAPES[name](random), 72)
        patch.over(canvas, (96 - patch.cover.shape[1]) // 2, (96 - patch.cover.shape[0]) // 2)
        images.append(develop(random, canvas))
    pixels = (torch.from_numpy(np.stack(images)).float() / 255 - MEAN) / STD
    with torch.inference_mode():
        return backbone(pixels.permute(0, 3, 1, 2)).feature_maps[-1].mean(dim=(2, 3))
