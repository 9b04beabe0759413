"""EfficientNet-Lite against a re-computation by hand, and as a backbone."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from scob.model.backbone import Backbone
from scob.model.efficientnet_lite import (
    VARIANTS,
    ConvNorm,
    EfficientNetLite,
    EfficientNetLiteConfig,
    InvertedBottleneck,
)
from scob.model.fold import fast_copy, fold_batchnorm


@pytest.fixture
def lite() -> EfficientNetLite:
    """Lite0 with random weights and random statistics."""
    torch.manual_seed(0)
    network = EfficientNetLite(EfficientNetLiteConfig(**VARIANTS["lite0"])).eval()
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 2)
            torch.nn.init.uniform_(part.weight, 0.8, 1.2)
            torch.nn.init.normal_(part.bias, 0, 0.1)
    return network


def convolved(x: Tensor, part: ConvNorm, rectify: bool = True) -> Tensor:
    """A convolution as TensorFlow defines it (SAME), then BatchNorm with eps 0.001 and ReLU6."""
    side, stride, weight = x.shape[-1], part.stride, part.convolution.weight
    kernel, outputs = weight.shape[-1], -(-side // stride)
    total = max((outputs - 1) * stride + kernel - side, 0)
    x = F.pad(x, [total // 2, total - total // 2] * 2)
    x = F.conv2d(x, weight, stride=stride, groups=part.convolution.groups)
    norm, shape = part.normalization, (1, -1, 1, 1)
    x = (x - norm.running_mean.view(shape)) / (norm.running_var.view(shape) + 0.001).sqrt()
    x = x * norm.weight.view(shape) + norm.bias.view(shape)
    return x.clamp(0, 6) if rectify else x


def naive(network: EfficientNetLite, x: Tensor) -> list[Tensor]:
    """The published table of layers: (repeats, kernel, stride, expansion, channels), stem 32 and head 1280."""
    table = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
             (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)]  # fmt: skip
    parts = [part for stage in network.stages for part in stage]
    x = convolved(x, parts.pop(0))
    maps = []
    for repeats, kernel, stride, expansion, channels in table:
        for number in range(repeats):
            block, before = parts.pop(0), x
            assert block.depthwise.convolution.weight.shape[-1] == kernel
            assert block.depthwise.stride == (1 if number else stride)
            if expansion > 1:
                x = convolved(x, block.expand)
            assert x.shape[1] == expansion * before.shape[1]
            x = convolved(convolved(x, block.depthwise), block.project, rectify=False)
            x = x + before if number else x
        assert x.shape[1] == channels
        maps.append(x)
    return [maps[4], convolved(maps[6], parts.pop(0))]


@pytest.mark.parametrize("size", [64, 75])
def test_it_computes_the_published_layers(lite: EfficientNetLite, size: int) -> None:
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        maps = lite(images).feature_maps
        for ours, reference in zip(maps, naive(lite, images), strict=True):
            assert ours.shape == reference.shape
            assert torch.allclose(ours, reference, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("variant", "millions"), [("lite0", 4.65), ("lite1", 5.42), ("lite2", 6.09)])
def test_the_variants_have_the_published_sizes(variant: str, millions: float) -> None:
    classifier = 1281 * 1000
    parameters = EfficientNetLite(EfficientNetLiteConfig(**VARIANTS[variant])).num_parameters()
    assert np.isclose((parameters + classifier) / 1e6, millions, atol=0.006)


def test_it_is_a_backbone_that_folds_and_freezes(lite: EfficientNetLite) -> None:
    backbone, images = Backbone(lite, "lite", "stages"), torch.randn(2, 3, 64, 64)
    assert backbone.channels == (112, 1280) and backbone.grids(64) == ((4, 4), (2, 2)) and backbone.keeps_statistics
    assert {n.split(".")[2] for n, p in backbone.named_parameters() if p.requires_grad} == {"4"}
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in fold_batchnorm(lite).modules())
    for a, b in zip(fast_copy(backbone, torch.float32)(images), backbone(images), strict=True):
        assert torch.allclose(a, b, atol=1e-4, rtol=1e-3)


def test_a_block_adds_its_input_only_if_it_fits() -> None:
    assert InvertedBottleneck(8, 8, 3, 1, 6).residual
    assert not InvertedBottleneck(8, 16, 3, 1, 6).residual and not InvertedBottleneck(8, 8, 3, 2, 6).residual
