"""A faster copy of a frozen backbone: BatchNorm folded into the convolutions, weights in the precision it runs in.

On a GPU, one kernel computes a convolution, its bias, the sum with the block's input and the ReLU. As separate kernels
these are passes over memory, which take most of a folded ResNet's time at large batches.
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


def has_batchnorm(module: nn.Module) -> bool:
    """Whether there is anything to fold."""
    return any(isinstance(part, nn.BatchNorm2d) for part in module.modules())


class RectifiedConvolution(nn.Module):
    """relu(convolution(x)), or relu(convolution(x) + z), as one kernel on a GPU. It has no gradient: for inference."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution
        self.fuses = torch.version.cuda is not None  # these kernels belong to cuDNN; AMD GPUs have none

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        exact = torch.are_deterministic_algorithms_enabled()  # a fused kernel may give other bits each time
        if self.fuses and x.is_cuda and torch.backends.cudnn.enabled and not exact and self._output_fits_32_bits(x):
            try:
                return self._as_one_kernel(x, z)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # cuDNN has no such kernel for this shape or card
                self.fuses = False
        convolved: Tensor = self.convolution(x)
        return F.relu(convolved if z is None else convolved + z)

    def _output_fits_32_bits(self, x: Tensor) -> bool:
        """If it does not, PyTorch's own convolution splits the batch; the fused kernel would not."""
        images, _, height, width = x.shape
        down, across = self.convolution.stride
        return images * self.convolution.out_channels * (height // down + 1) * (width // across + 1) < 2**31

    def _as_one_kernel(self, x: Tensor, z: Tensor | None) -> Tensor:
        conv = self.convolution
        geometry: tuple[Any, ...] = (conv.stride, conv.padding, conv.dilation, conv.groups)
        if z is None:
            return torch.cudnn_convolution_relu(x, conv.weight, conv.bias, *geometry)
        return torch.cudnn_convolution_add_relu(x, conv.weight, z, 1.0, conv.bias, *geometry)


class ResidualBlock(nn.Module):
    """A folded ResNet block whose last convolution also adds the block's input and applies the ReLU."""

    def __init__(self, first: list[nn.Module], last: nn.Conv2d, shortcut: nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.shortcut = nn.Sequential(*first), RectifiedConvolution(last), shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x), self.shortcut(x))  # type: ignore[no-any-return]


def join_rectifiers(folded: nn.Module) -> None:
    """Replace the parts of a folded `transformers` ResNet by those above; other networks stay as they are."""
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
    """The same function for inference: folded, in `dtype`, channels last."""
    body = fold_batchnorm(backbone.body).to(dtype=dtype)
    join_rectifiers(body)
    fast = Backbone(body, backbone.name, "all")
    return fast.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
