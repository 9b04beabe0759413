"""A backbone of two convolutions that transformers does not have. A real one would bring trained weights."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoBackbone, AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BackboneOutput


class TwoConvolutionsConfig(PretrainedConfig):
    """Only the width can be chosen."""

    model_type = "scob-example-two-convolutions"

    def __init__(self, width: int = 8, **rest: object) -> None:
        super().__init__(**rest)
        self.width = width
        self.stage_names = ["stage1", "stage2"]
        self.out_features = ["stage1", "stage2"]


class TwoConvolutions(PreTrainedModel):
    """An image to two feature maps, at an eighth and at a sixteenth of its side."""

    config_class = TwoConvolutionsConfig
    main_input_name = "pixel_values"

    def __init__(self, config: TwoConvolutionsConfig) -> None:
        super().__init__(config)
        self.first = nn.Conv2d(3, config.width, kernel_size=8, stride=8)
        self.second = nn.Conv2d(config.width, 2 * config.width, kernel_size=2, stride=2)
        self.channels = [config.width, 2 * config.width]
        self.post_init()

    def forward(self, pixel_values: Tensor) -> BackboneOutput:
        first = self.first(pixel_values).relu()
        return BackboneOutput(feature_maps=(first, self.second(first).relu()))


AutoConfig.register(TwoConvolutionsConfig.model_type, TwoConvolutionsConfig, exist_ok=True)
AutoBackbone.register(TwoConvolutionsConfig, TwoConvolutions, exist_ok=True)


def folder() -> Path:
    """The backbone as transformers saves one: config.json and model.safetensors."""
    place = Path(tempfile.gettempdir()) / "scob-example-two-convolutions"
    if not (place / "model.safetensors").is_file():
        torch.manual_seed(0)
        TwoConvolutions(TwoConvolutionsConfig()).save_pretrained(place)
    return place
