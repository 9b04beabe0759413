"""Every family of backbones gives two maps; what is frozen stays frozen; calibration replaces the statistics."""

from pathlib import Path

import torch
from torch import Tensor, nn

from scob.model.load_backbone import load_backbone

EXPECTED = {
    "resnet": ((32, 4, 4), (64, 2, 2)),
    "convnext": ((24, 4, 4), (32, 2, 2)),
    "swin": ((32, 4, 4), (64, 2, 2)),
    "dinov2": ((16, 8, 8), (16, 8, 8)),
    "dinov3": ((16, 8, 8), (16, 8, 8)),
    "efficientnet-lite": ((8, 4, 4), (32, 2, 2)),
    "clip": ((16, 4, 4), (16, 4, 4)),
    "siglip": ((16, 4, 4), (16, 4, 4)),
    "siglip2": ((16, 4, 4), (16, 4, 4)),
    "vit": ((16, 4, 4), (16, 4, 4)),
}


def test_two_maps_of_every_family(family: tuple[str, Path]) -> None:
    kind, folder = family
    backbone = load_backbone(str(folder))
    third, fourth = backbone(torch.randn(2, 3, 64, 64))
    assert (tuple(third.shape[1:]), tuple(fourth.shape[1:])) == EXPECTED[kind]
    assert backbone.channels == (third.shape[1], fourth.shape[1])
    assert backbone.grids(64) == (tuple(third.shape[2:]), tuple(fourth.shape[2:]))
    assert not torch.equal(third[0].flatten()[:16], fourth[0].flatten()[:16])  # two depths, not one twice


def test_the_grids_of_a_backbone_in_double_precision(tiny_backbone: Path) -> None:
    backbone = load_backbone(str(tiny_backbone))
    assert backbone.double().grids(64) == load_backbone(str(tiny_backbone)).grids(64)


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
