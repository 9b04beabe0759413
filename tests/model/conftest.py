"""Tiny random backbones of ten families, a calibrated one with images, and features for a masked transformer."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.model.backbone import Backbone
from scob.model.load_backbone import load_backbone

TOWERS = ("clip", "siglip", "siglip2", "vit")


def tiny_tower(kind: str) -> Any:
    """The whole model's configuration, text half and all, as the hub stores it."""
    import transformers as t

    shared = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    vision = {**shared, "num_hidden_layers": 8, "patch_size": 16}
    if kind == "vit":
        return t.ViTConfig(**vision, image_size=64)
    text = {**shared, "num_hidden_layers": 1, "vocab_size": 9, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if kind == "siglip2":
        return t.Siglip2Config(vision_config={**vision, "num_patches": 16}, text_config=text)
    family = t.CLIPConfig if kind == "clip" else t.SiglipConfig
    return family(vision_config={**vision, "image_size": 64}, text_config=text)


def tiny(kind: str) -> Any:
    import transformers as t

    if kind == "resnet":
        return t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], layer_type="basic")
    if kind == "convnext":
        return t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    if kind == "efficientnet-lite":
        from scob.model.efficientnet_lite import EfficientNetLiteConfig

        return EfficientNetLiteConfig(depths=[1] * 7, widths=[4, 4, 4, 8, 8, 8, 16], stem=4, head=32)
    if kind in TOWERS:
        return tiny_tower(kind)
    if kind == "dinov3":
        return t.DINOv3ViTConfig(
            image_size=64, patch_size=8, hidden_size=16, intermediate_size=32, num_hidden_layers=8,
            num_attention_heads=2, num_register_tokens=2,
        )  # fmt: skip
    if kind == "swin":
        return t.SwinConfig(image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2)
    return t.Dinov2Config(
        image_size=64, patch_size=8, hidden_size=16, num_hidden_layers=8, num_attention_heads=2, mlp_ratio=2
    )


def stored(kind: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A folder as `transformers` saves it, with nothing said about which stages to tap."""
    from transformers import AutoModel
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    torch.manual_seed(0)
    config, folder = tiny(kind), tmp_path_factory.mktemp(kind)
    model = AutoModel.from_config(config) if kind in TOWERS else MODEL_FOR_BACKBONE_MAPPING[type(config)](config)
    model.save_pretrained(folder)
    return kind, folder


FAMILIES = ["convnext", "dinov2", "dinov3", "efficientnet-lite", "resnet", "swin", *TOWERS]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A backbone of each family: its name and its folder."""
    return stored(request.param, tmp_path_factory)


@pytest.fixture(scope="module", params=TOWERS)
def tower(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A model without a backbone class: its name and its folder."""
    return stored(request.param, tmp_path_factory)


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
