"""Class maps of pairs: any class of any image, in chunks, as one image at a time would give them."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from scob.algorithm.cam import Maps, MapSettings, activation_maps, masks_of
from scob.inference import class_maps
from scob.inference.class_maps import EXPLAINED
from scob.inference.model import Scob
from scob.model.network import Network
from support.small_model import Small


def one_pair(network: Network, image: Tensor, c: int, settings: MapSettings = EXPLAINED) -> Maps:
    """Maps of one class of one image (1, 3, S, S), straight from Eq. 2."""
    with torch.no_grad():
        third, fourth = network.backbone(image)
    features = (third.clone().requires_grad_(), fourth.clone().requires_grad_())
    logits = network.classify(features)
    return activation_maps(logits, features, torch.tensor([c]), settings)


@pytest.mark.parametrize("settings", [EXPLAINED, MapSettings(source="each")])
def test_pairs_in_chunks_are_the_maps_of_single_images(
    small: Small, monkeypatch: pytest.MonkeyPatch, settings: MapSettings
) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    pixels = np.stack([np.asarray(Image.open(f).convert("RGB").resize((64, 64))) for f in small.files[:3]])
    images = model.prepare(pixels)
    with torch.no_grad():
        features = model.network.backbone(images)
    rows, classes = torch.tensor([0, 0, 2, 1, 2]), torch.tensor([1, 5, 0, 3, 7])
    together = class_maps.class_maps(model.network, features, rows, classes, settings)
    monkeypatch.setattr(class_maps, "PAIRS", 2)
    pieces = class_maps.class_maps(model.network, features, rows, classes, settings)
    assert torch.allclose(together.heat, pieces.heat, atol=1e-5)
    for number, (row, c) in enumerate(zip(rows.tolist(), classes.tolist(), strict=True)):
        third, fourth = one_pair(model.network, images[row : row + 1], c, settings)
        coarse = torch.nn.functional.interpolate(fourth[:, None], third.shape[1:], mode="bilinear")[:, 0]
        both = (third + coarse)[0] if settings.source == "each" else third[0]
        assert torch.allclose(together.heat[number], both / both.max().clamp(min=1e-9), atol=1e-4)


def test_any_class_or_several_of_an_image(experiment_of: Any) -> None:
    network = experiment_of().network.eval()
    torch.manual_seed(0)
    with torch.no_grad():
        features = network.backbone(torch.randn(2, 3, 64, 64))
    rows, classes = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 3, -1, 1, 2, 5])
    found = class_maps.class_maps(network, features, rows, classes)
    third, fourth = found.maps
    assert third.shape == found.heat.shape == (6, 8, 8)
    assert fourth.shape == (6, 4, 4)
    assert (third[2] == 0).all()  # class -1: no map, no heat, no mask
    assert (found.heat[2] == 0).all() and not found.masks[0][2].any() and not found.masks[1][2].any()
    alone = class_maps.class_maps(network, features, torch.tensor([0, 1]), torch.tensor([3, 2])).maps[0]
    assert torch.allclose(alone[0], third[1], atol=1e-4)
    assert torch.allclose(alone[1], third[4], atol=1e-4)
    assert all(p.grad is None for p in network.parameters())


@pytest.mark.parametrize(
    "settings",
    [
        MapSettings("grad++"),
        MapSettings(source="stage4"),
        MapSettings(steps=2),
        MapSettings(windows=(1, 3), threshold=0.2),
    ],
)
def test_the_settings_reach_both_equations(experiment_of: Any, settings: MapSettings) -> None:
    network = experiment_of().network.eval()
    torch.manual_seed(0)
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        features = network.backbone(image)
    found = class_maps.class_maps(network, features, torch.tensor([0]), torch.tensor([4]), settings)
    expected = one_pair(network, image, 4, settings)
    assert all(torch.allclose(f, e, atol=1e-5) for f, e in zip(found.maps, expected, strict=True))
    masks = masks_of(found.maps, settings)
    assert all(torch.equal(f, e) for f, e in zip(found.masks, masks, strict=True))
