"""Tiny random backbones of four families, a calibrated one with images, and features for a masked transformer."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.model.backbone import Backbone
from scob.model.load_backbone import load_backbone


def tiny(kind: str) -> Any:
    import transformers as t

    if kind == "resnet":
        return t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], layer_type="basic")
    if kind == "convnext":
        return t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    if kind == "swin":
        return t.SwinConfig(image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2)
    return t.Dinov2Config(
        image_size=64, patch_size=8, hidden_size=16, num_hidden_layers=8, num_attention_heads=2, mlp_ratio=2
    )


@pytest.fixture(scope="module", params=["convnext", "dinov2", "resnet", "swin"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A folder as `transformers` saves it, with nothing said about which stages to tap."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    torch.manual_seed(0)
    config, folder = tiny(request.param), tmp_path_factory.mktemp(request.param)
    MODEL_FOR_BACKBONE_MAPPING[type(config)](config).save_pretrained(folder)
    return request.param, folder


@pytest.fixture
def backbone(tiny_backbone: Path) -> Backbone:
    backbone = load_backbone(str(tiny_backbone))
    torch.manual_seed(0)
    backbone.calibrate([torch.randn(8, 3, 64, 64)])
    return backbone


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (7, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def features() -> torch.Tensor:
    return torch.randn(3, 6, 5, 4, generator=torch.Generator().manual_seed(1))
