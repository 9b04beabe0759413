"""The embedded ImageNet backbone: small, loadable offline, and with the weights that were measured."""

import numpy as np
import pytest
import torch
from safetensors import safe_open

from scob.model.backbone import Backbone
from scob.model.embedded import backbone_path
from scob.model.load_backbone import load_backbone
from scob.model.preprocessing import preprocessing

STORED = [4.572226, 0.316564, 5.48846, 0.926816]
FOLDER = backbone_path("photographs")


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return load_backbone("photographs")


def test_it_is_small_and_stored_in_half_precision_with_its_licence() -> None:
    weights = FOLDER / "model.safetensors"
    assert weights.stat().st_size <= 10e6
    with safe_open(weights, framework="pt") as file:
        kinds = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 (not a dict)
    assert kinds <= {torch.float16, torch.int64}
    assert "Apache License, Version 2.0" in (FOLDER / "NOTICE").read_text()


def test_its_inputs_are_normalised_in_its_own_way() -> None:
    """(pixel - 127) / 128, so that 127 becomes 0 and 255 becomes 1."""
    mean, std = (torch.tensor(numbers) for numbers in preprocessing("photographs"))
    assert torch.allclose((torch.tensor(127 / 255) - mean) / std, torch.zeros(3), atol=1e-5)
    assert torch.allclose((torch.tensor(255 / 255) - mean) / std, torch.ones(3), atol=1e-5)


def test_it_gives_the_two_stages_in_full_precision(backbone: Backbone) -> None:
    assert {p.dtype for p in backbone.parameters()} == {torch.float32}
    assert backbone.channels == (112, 1280) and backbone.grids(224) == ((14, 14), (7, 7))


def test_its_features_are_those_that_were_measured(backbone: Backbone) -> None:
    """Sums over a picture of waves; a changed layer, weight or padding changes them."""
    down, across = torch.meshgrid(torch.arange(96.0), torch.arange(96.0), indexing="ij")
    picture = torch.stack([torch.sin(down / 7), torch.cos(across / 5), torch.sin((down + across) / 11)])[None]
    third, fourth = backbone(picture)
    sums = [float(m.abs().mean()) for m in (third, fourth)] + [float(third[0, :, 2, 3].std()), float(fourth.std())]
    np.testing.assert_allclose(sums, STORED, rtol=2e-3)
