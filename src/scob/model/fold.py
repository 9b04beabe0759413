"""A frozen backbone made fast: BatchNorm folded into the convolutions, weights in the precision it runs in.

On a GPU a convolution's bias, the sum with the block's input and the ReLU are part of its kernel: after folding, a
ResNet's time at large batches is mostly the passes over memory that these would make by themselves.
"""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
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


class RectifiedConvolution(nn.Module):
    """relu(convolution(x)), or relu(convolution(x) + z), as one kernel on a GPU. For inference: it has no gradient."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution
        self.fuses = torch.version.cuda is not None  # not where a GPU is AMD's: these kernels are cuDNN's

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        exact = torch.are_deterministic_algorithms_enabled()  # a fused kernel need not repeat its bits
        if self.fuses and x.is_cuda and torch.backends.cudnn.enabled and not exact and self._counts_in_32_bits(x):
            try:
                return self._as_one_kernel(x, z)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # cuDNN has no such kernel for this shape or card
                self.fuses = False
        found: Tensor = self.convolution(x)
        return F.relu(found if z is None else found + z)

    def _counts_in_32_bits(self, x: Tensor) -> bool:
        """Where it does not, PyTorch's own convolution goes through the batch in parts; the fused one would not."""
        images, _, height, width = x.shape
        across, down = self.convolution.stride
        return images * self.convolution.out_channels * (height // across + 1) * (width // down + 1) < 2**31

    def _as_one_kernel(self, x: Tensor, z: Tensor | None) -> Tensor:
        made = self.convolution
        how: tuple[Any, ...] = (made.stride, made.padding, made.dilation, made.groups)
        if z is None:
            return torch.cudnn_convolution_relu(x, made.weight, made.bias, *how)
        return torch.cudnn_convolution_add_relu(x, made.weight, z, 1.0, made.bias, *how)


class ResidualBlock(nn.Module):
    """A folded block of a ResNet whose last convolution adds the block's input and rectifies."""

    def __init__(self, first: list[nn.Module], last: nn.Conv2d, shortcut: nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.shortcut = nn.Sequential(*first), RectifiedConvolution(last), shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x), self.shortcut(x))  # type: ignore[no-any-return]


def join_rectifiers(folded: nn.Module) -> None:
    """Put the parts above in place of a folded `transformers` ResNet's own; other networks stay as they are."""
    from transformers.models.resnet.modeling_resnet import ResNetBasicLayer, ResNetBottleNeckLayer, ResNetConvLayer

    for name, part in list(folded.named_children()):
        join_rectifiers(part)
        if not isinstance(getattr(part, "activation", None), nn.ReLU):
            continue
        if isinstance(part, ResNetConvLayer) and isinstance(part.normalization, nn.Identity):
            setattr(folded, name, RectifiedConvolution(part.convolution))
        elif isinstance(part, (ResNetBasicLayer, ResNetBottleNeckLayer)):
            *first, last = part.layer
            if isinstance(last.normalization, nn.Identity):
                setattr(folded, name, ResidualBlock(first, last.convolution, part.shortcut))


def fast_copy(backbone: Backbone, dtype: torch.dtype) -> Backbone:
    """The same function for inference, folded and in `dtype`, channels last."""
    body = fold_batchnorm(backbone.body).to(dtype=dtype)
    join_rectifiers(body)
    made = Backbone(body, backbone.name, "all")
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
