"""ResNets from files in torchvision's naming: the same numbers, any usual prefix, nothing unpickled but tensors."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from scob.errors import UserError
from scob.model.load_backbone import load_backbone
from scob.model.resnet_weights import transformers_name


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
    maps = load_backbone(str(tmp_path / "resnet.pth"))(images := torch.randn(2, 3, 64, 64))
    for a, b in zip(maps, original(images), strict=True):
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


def test_a_file_that_is_not_a_whole_resnet_is_refused(tmp_path: Path) -> None:
    weights = VisionResNet(False).state_dict()
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pth")
    torch.save({k: v for k, v in weights.items() if "layer3.0.bn2" not in k}, tmp_path / "part.pth")
    for name, words in (("other.pth", "not a torchvision-format"), ("part.pth", "lacks")):
        with pytest.raises(UserError, match=words):
            load_backbone(str(tmp_path / name))


def test_names_of_the_classifier_are_not_translated() -> None:
    assert transformers_name("fc.weight") is None
    assert transformers_name("layer2.1.bn3.bias") == "encoder.stages.1.layers.1.layer.2.normalization.bias"
    assert transformers_name("layer2.0.downsample.0.weight") == "encoder.stages.1.layers.0.shortcut.convolution.weight"


def test_sizes_that_do_not_fit_together_are_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    weights = VisionResNet(False).state_dict()
    weights["layer3.0.conv2.weight"] = torch.zeros(1_000_000, 1, 1, 1)  # a million channels would need terabytes
    torch.save(weights, tmp_path / "resnet.pth")
    with pytest.raises(UserError, match="does not fit the ResNet that its names describe"):
        load_backbone(str(tmp_path / "resnet.pth"))


def test_a_file_that_contains_itself_ends(tmp_path: Path) -> None:
    endless: dict[str, Any] = {}
    endless["model"] = endless
    torch.save(endless, tmp_path / "resnet.pth")
    with pytest.raises(UserError, match="not a torchvision-format ResNet"):
        load_backbone(str(tmp_path / "resnet.pth"))
