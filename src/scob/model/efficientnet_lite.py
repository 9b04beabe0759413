"""EfficientNet-Lite: an ImageNet network made for CPUs and 8 bits, as a `transformers` backbone.

Inverted bottlenecks (MBConv) without squeeze-and-excitation, ReLU6 instead of swish; the stem and the head have the
same width in every variant. Stages are numbered as in a ResNet: stage 3 has stride 16, stage 4 stride 32.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoBackbone, AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BackboneOutput

# Per group of blocks: the stage it belongs to, its kernel, the stride of its first block, its expansion.
GROUPS = ((0, 3, 1, 1), (1, 3, 2, 6), (2, 5, 2, 6), (3, 3, 2, 6), (3, 5, 1, 6), (4, 5, 2, 6), (4, 3, 1, 6))
STAGES = ["stem", "stage1", "stage2", "stage3", "stage4"]
VARIANTS: dict[str, dict[str, Any]] = {
    "lite0": {"depths": [1, 2, 2, 3, 3, 4, 1], "widths": [16, 24, 40, 80, 112, 192, 320]},
    "lite1": {"depths": [1, 3, 3, 4, 4, 5, 1], "widths": [16, 24, 40, 80, 112, 192, 320]},
    "lite2": {"depths": [1, 3, 3, 4, 4, 5, 1], "widths": [16, 24, 48, 88, 120, 208, 352]},
}


class EfficientNetLiteConfig(PreTrainedConfig):  # type: ignore[misc]
    """Blocks and channels of each of the seven groups, of the stem, and of the last convolution (`head`; 0: none)."""

    model_type = "efficientnet-lite"

    def __init__(
        self,
        depths: list[int] = VARIANTS["lite0"]["depths"],
        widths: list[int] = VARIANTS["lite0"]["widths"],
        stem: int = 32,
        head: int = 1280,
        out_features: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.depths, self.widths, self.stem, self.head = list(depths), list(widths), stem, head
        self.stage_names = STAGES
        self.out_features = out_features or STAGES[-2:]
        super().__init__(**{key: value for key, value in kwargs.items() if key != "stage_names"})


class ConvNorm(nn.Module):
    """Convolution, BatchNorm and, if asked for, ReLU6; padded the way TensorFlow pads (`SAME`)."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, rectify: bool = True
    ) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        padding = kernel // 2 if stride == 1 else 0
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.normalization = nn.BatchNorm2d(outputs, eps=1e-3)
        self.activation: nn.Module = nn.ReLU6() if rectify else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 2:  # an even side gets one row less before it than after it
            down, across = (self.kernel - 2 + int(side) % 2 for side in x.shape[2:])
            x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return self.activation(self.normalization(self.convolution(x)))  # type: ignore[no-any-return]


class InvertedBottleneck(nn.Module):
    """MBConv: widen, convolve each channel on its own, narrow without a rectifier; added to its input if that fits."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = ConvNorm(inputs, wide) if expansion > 1 else nn.Identity()
        self.depthwise = ConvNorm(wide, wide, kernel, stride, groups=wide)
        self.project = ConvNorm(wide, outputs, rectify=False)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        narrow: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + narrow if self.residual else narrow


class EfficientNetLite(PreTrainedModel):  # type: ignore[misc]
    """(B, 3, S, S) -> the maps of the stages that `config.out_features` names."""

    config_class = EfficientNetLiteConfig
    # Re-estimated on VOC 2007, BatchNorm statistics differ by a few per cent, but its features lose 14 points of mAP.
    keeps_statistics = True
    main_input_name = "pixel_values"

    def __init__(self, config: EfficientNetLiteConfig) -> None:
        super().__init__(config)
        stages: list[list[nn.Module]] = [[] for _ in STAGES]
        stages[0].append(ConvNorm(3, config.stem, kernel=3, stride=2))
        inputs = config.stem
        for (stage, kernel, stride, expansion), depth, width in zip(GROUPS, config.depths, config.widths, strict=True):
            for number in range(depth):
                stages[stage].append(InvertedBottleneck(inputs, width, kernel, 1 if number else stride, expansion))
                inputs = width
        if config.head:
            stages[4].append(ConvNorm(inputs, config.head))
        self.stages = nn.ModuleList(nn.Sequential(*blocks) for blocks in stages)
        last_group = (0, 1, 2, 4, 6)
        widths = [config.widths[group] for group in last_group[:4]] + [config.head or config.widths[-1]]
        self.channels = [widths[STAGES.index(name)] for name in config.out_features]
        self.post_init()

    def forward(self, pixel_values: Tensor) -> BackboneOutput:
        maps, x = [], pixel_values
        for name, stage in zip(STAGES, self.stages, strict=True):
            x = stage(x)
            if name in self.config.out_features:
                maps.append(x)
        return BackboneOutput(feature_maps=tuple(maps))


AutoConfig.register(EfficientNetLiteConfig.model_type, EfficientNetLiteConfig, exist_ok=True)
AutoBackbone.register(EfficientNetLiteConfig, EfficientNetLite, exist_ok=True)
