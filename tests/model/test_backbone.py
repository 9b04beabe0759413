"""Backbones of four families from folders, ResNets from torchvision files, and what stays frozen."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from scob.errors import UserError
from scob.model.backbone import backbone_config, backbone_from_config, load_backbone, preprocessing


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


EXPECTED = {
    "resnet": ((32, 4, 4), (64, 2, 2)),
    "convnext": ((24, 4, 4), (32, 2, 2)),
    "swin": ((32, 4, 4), (64, 2, 2)),
    "dinov2": ((16, 8, 8), (16, 8, 8)),
}


@pytest.fixture(scope="module", params=sorted(EXPECTED))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A folder as `transformers` saves it, with nothing said about which stages to tap."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    torch.manual_seed(0)
    config, folder = tiny(request.param), tmp_path_factory.mktemp(request.param)
    MODEL_FOR_BACKBONE_MAPPING[type(config)](config).save_pretrained(folder)
    return request.param, folder


def test_two_maps_of_every_family(family: tuple[str, Path]) -> None:
    kind, folder = family
    backbone = load_backbone(str(folder))
    third, fourth = backbone(torch.randn(2, 3, 64, 64))
    assert (tuple(third.shape[1:]), tuple(fourth.shape[1:])) == EXPECTED[kind]
    assert backbone.channels == (third.shape[1], fourth.shape[1])
    assert backbone.grids(64) == (tuple(third.shape[2:]), tuple(fourth.shape[2:]))
    assert not torch.equal(third[0].flatten()[:16], fourth[0].flatten()[:16])  # two depths, not one twice


def test_a_stored_configuration_rebuilds_it(family: tuple[str, Path]) -> None:
    backbone = load_backbone(str(family[1]))
    twin = backbone_from_config(backbone_config(backbone), "twin")
    twin.load_state_dict(backbone.state_dict())
    images = torch.randn(1, 3, 64, 64)
    assert all(torch.equal(a, b) for a, b in zip(twin(images), backbone(images), strict=True))


def test_freezing(family: tuple[str, Path]) -> None:
    kind, folder = family
    counts = {}
    for freeze in ("all", "stages", "none"):
        backbone = load_backbone(str(folder), freeze)
        counts[freeze] = sum(p.requires_grad for p in backbone.parameters())
        maps = backbone(torch.randn(1, 3, 64, 64))
        assert maps[1].requires_grad == (freeze != "all")
        assert maps[0].requires_grad == (freeze == "none"), kind
        assert not backbone.train().training
        assert not any(m.training for m in backbone.modules())
    assert 0 == counts["all"] < counts["stages"] < counts["none"]


class Block(nn.Module):
    """A residual block named and computed as torchvision does it."""

    def __init__(self, inside: int, width: int, outside: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        sizes = (
            [(inside, width, 1, 1), (width, width, 3, stride), (width, outside, 1, 1)]
            if bottleneck
            else [(inside, width, 3, stride), (width, outside, 3, 1)]
        )
        for n, (a, b, k, s) in enumerate(sizes, 1):
            setattr(self, f"conv{n}", nn.Conv2d(a, b, k, s, k // 2, bias=False))
            setattr(self, f"bn{n}", nn.BatchNorm2d(b))
        self.parts = len(sizes)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
            if inside != outside or stride != 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for n in range(1, self.parts + 1):
            y = getattr(self, f"bn{n}")(getattr(self, f"conv{n}")(y))
            y = y.relu() if n < self.parts else y
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class VisionResNet(nn.Module):
    """A small ResNet in torchvision's naming."""

    def __init__(self, bottleneck: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        inside = 8
        for stage, (width, depth) in enumerate(((4, 2), (8, 1), (16, 1), (32, 2)), 1):
            outside = 4 * width if bottleneck else 2 * width
            wide = width if bottleneck else outside
            blocks = []
            for n in range(depth):
                blocks.append(Block(inside, wide, outside, 2 if n == 0 and stage > 1 else 1, bottleneck))
                inside = outside
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inside, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        third = self.layer3(self.layer2(self.layer1(x)))
        return third, self.layer4(third)


@pytest.mark.parametrize("bottleneck", [False, True])
def test_a_torchvision_file_computes_the_same(tmp_path: Path, bottleneck: bool) -> None:
    torch.manual_seed(0)
    original = VisionResNet(bottleneck)
    with torch.no_grad():
        for norm in (m for m in original.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_()
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    original.eval()
    torch.save(original.state_dict(), tmp_path / "resnet.pth")
    found = load_backbone(str(tmp_path / "resnet.pth"))(images := torch.randn(2, 3, 64, 64))
    for a, b in zip(found, original(images), strict=True):
        assert torch.allclose(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "prefix", ["module.", "module.encoder_q.", "backbone.", "backbone.0.body.", "module.encoder.", "model.backbone."]
)
@pytest.mark.parametrize("wrapped", [None, "state_dict", "model"])
def test_common_prefixes_are_stripped(tmp_path: Path, prefix: str, wrapped: str | None) -> None:
    weights = VisionResNet(False).state_dict()
    named: dict[str, Any] = {prefix + k: v for k, v in weights.items()}
    named["queue"] = torch.zeros(3)
    torch.save({wrapped: named, "epoch": 3} if wrapped else named, tmp_path / "weights.pth.tar")
    body = load_backbone(str(tmp_path / "weights.pth.tar")).body
    assert torch.equal(body.state_dict()["embedder.embedder.convolution.weight"], weights["conv1.weight"])


def test_the_momentum_encoder_does_not_take_the_encoders_place(tmp_path: Path) -> None:
    weights = VisionResNet(False).state_dict()
    both = {f"module.encoder_q.{k}": v for k, v in weights.items()}
    both |= {f"module.encoder_k.{k}": torch.full_like(v, 7) for k, v in weights.items()}
    torch.save({"state_dict": both}, tmp_path / "moco.pth")
    body = load_backbone(str(tmp_path / "moco.pth")).body
    assert torch.equal(body.state_dict()["embedder.embedder.convolution.weight"], weights["conv1.weight"])


class Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save({"conv1.weight": torch.zeros(1), "x": Malice(tmp_path / "ran")}, tmp_path / "evil.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Malice(tmp_path / "ran")))
    for name in ("evil.pth", "plain.pth"):
        with pytest.raises(UserError, match="tensors"):
            load_backbone(str(tmp_path / name))
    assert not (tmp_path / "ran").exists()


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    weights = VisionResNet(False).state_dict()
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pth")
    torch.save({k: v for k, v in weights.items() if "layer3.0.bn2" not in k}, tmp_path / "part.pth")
    (tmp_path / "empty").mkdir()
    for name, words in (("other.pth", "no torchvision-format"), ("part.pth", "lacks"), ("empty", "config.json"),
                        ("missing.pth", "there is no backbone")):  # fmt: skip
        with pytest.raises(UserError, match=words):
            load_backbone(str(tmp_path / name))


def test_calibration_takes_the_statistics_of_the_images(tiny_backbone: Path) -> None:
    backbone = load_backbone(str(tiny_backbone))
    norm = next(m for m in backbone.modules() if isinstance(m, nn.BatchNorm2d))
    before = {k: v.clone() for k, v in backbone.named_parameters()}
    seen: list[Tensor] = []
    handle = norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    assert backbone.calibrate(torch.randn(4, 3, 64, 64) * 3 + 1 for _ in range(3)) == 12
    handle.remove()
    assert torch.allclose(norm.running_mean, torch.stack([x.mean((0, 2, 3)) for x in seen]).mean(0), atol=1e-5)
    assert torch.allclose(norm.running_var, torch.stack([x.var((0, 2, 3)) for x in seen]).mean(0), rtol=1e-4)
    assert not any(m.training for m in backbone.modules())
    assert all(torch.equal(v, before[k]) for k, v in backbone.named_parameters())
    after = norm.running_mean.clone()
    backbone(torch.randn(4, 3, 64, 64))
    assert torch.equal(norm.running_mean, after)  # in eval again


def test_a_folders_own_preprocessing_is_used(tmp_path: Path) -> None:
    assert preprocessing(str(tmp_path))[0] == (0.485, 0.456, 0.406)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.5, 0.5, 0.5], "image_std": [1, 1, 1]}')
    assert preprocessing(str(tmp_path)) == ((0.5, 0.5, 0.5), (1, 1, 1))
    (tmp_path / "preprocessor_config.json").write_text("{}")
    with pytest.raises(UserError, match="image_mean"):
        preprocessing(str(tmp_path))
