"""A frozen backbone made fast: BatchNorm folded into the convolutions, weights in the precision it runs in."""

import copy

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from scob.model.backbone import Backbone


def fold_batchnorm(module: nn.Module) -> nn.Module:
    """A copy in which every (convolution, normalization) pair of a `transformers` ResNet is one convolution."""
    folded = copy.deepcopy(module).eval()
    for part in list(folded.modules()):
        convolution, norm = getattr(part, "convolution", None), getattr(part, "normalization", None)
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            part.convolution = fuse_conv_bn_eval(convolution, norm)
            part.normalization = nn.Identity()
    return folded


def fast_copy(backbone: Backbone, dtype: torch.dtype) -> Backbone:
    """The same function for inference, folded and in `dtype`, channels last."""
    body = fold_batchnorm(backbone.body).to(dtype=dtype)
    made = Backbone(body, backbone.name, "all")
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
