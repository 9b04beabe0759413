"""A folded backbone computes what the original computes."""

import pytest
import torch
from transformers.models.resnet.modeling_resnet import ResNetShortCut

from scob.data.views import Views
from scob.model.backbone import Backbone
from scob.model.fold import RectifiedConvolution, fast_copy, fold_batchnorm


def test_a_folded_backbone_computes_the_same(backbone: Backbone, images: torch.Tensor) -> None:
    norms = [m for m in fold_batchnorm(backbone.body).modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms == []
    views = Views(64).normalise(images)
    before = {k: v.clone() for k, v in backbone.state_dict().items()}
    for a, b in zip(fast_copy(backbone, torch.float32)(views), backbone(views), strict=True):
        assert torch.allclose(a, b, atol=1e-4, rtol=1e-4)
    assert all(torch.equal(v, before[k]) for k, v in backbone.state_dict().items())


def test_a_folded_resnet_has_no_rectifier_of_its_own(backbone: Backbone) -> None:
    parts = list(fast_copy(backbone, torch.float32).modules())
    assert not any(isinstance(part, torch.nn.ReLU) for part in parts)
    convolutions = sum(isinstance(part, torch.nn.Conv2d) for part in parts)
    shortcuts = sum(isinstance(getattr(part, "shortcut", None), ResNetShortCut) for part in parts)
    assert sum(isinstance(part, RectifiedConvolution) for part in parts) == convolutions - shortcuts


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_one_kernel_computes_what_three_do(backbone: Backbone, images: torch.Tensor) -> None:
    views = Views(64).normalise(images).cuda().contiguous(memory_format=torch.channels_last)
    exact = backbone.cuda()(views)
    fast = fast_copy(backbone, torch.bfloat16)
    for a, b in zip(fast(views.bfloat16()), exact, strict=True):
        assert (a.float() - b).norm() < 0.03 * b.norm()
    rectified = [part for part in fast.modules() if isinstance(part, RectifiedConvolution)]
    assert rectified and all(part.fuses for part in rectified)
