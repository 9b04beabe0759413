"""CLIP, SigLIP, SigLIP 2 and plain ViTs, which have no backbone class in `transformers`: two of their layers as maps.

As with DINOv2, the layers share one grid, and the model's last layer norm is applied to both. Positions are
interpolated to the grid of the input.
"""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BackboneOutput


@dataclass(frozen=True)
class Kind:
    """Which classes of `transformers` hold the images' half of a model, and its last layer norm."""

    prefix: str
    norm: str = "post_layernorm"
    model: str = "VisionModel"
    config: str = "VisionConfig"
    patches_as_rows: bool = False  # SigLIP 2 with free aspect ratio reads (B, N, P * P * 3)


KINDS = {
    "clip": Kind("CLIP"), "clip_vision_model": Kind("CLIP"), "siglip": Kind("Siglip"),
    "siglip_vision_model": Kind("Siglip"), "siglip2": Kind("Siglip2", patches_as_rows=True),
    "siglip2_vision_model": Kind("Siglip2", patches_as_rows=True), "vit": Kind("ViT", "layernorm", "Model", "Config"),
}  # fmt: skip


def two_layers(config: Any) -> list[str]:
    """The two that a stored configuration names, else the one at three quarters of the depth and the last."""
    stored = getattr(config, "out_features", None) or []
    depth = config.num_hidden_layers
    return list(stored) if len(stored) == 2 else [f"stage{min(depth - 1, round(0.75 * depth))}", f"stage{depth}"]


class VisionTower(nn.Module):
    """(B, 3, S, S) -> two maps (B, C, S / P, S / P): the cells of two layers; class tokens are left out."""

    def __init__(self, model: nn.Module, kind: Kind) -> None:
        super().__init__()
        self.model, self.kind = model, kind
        self.config = model.config
        self.config.out_features = two_layers(self.config)  # type: ignore[union-attr]
        self.layers = [int(name.removeprefix("stage")) for name in self.config.out_features]  # type: ignore[union-attr]
        self.patch = int(self.config.patch_size)  # type: ignore[union-attr,arg-type]
        self.channels = (int(self.config.hidden_size),) * 2  # type: ignore[union-attr,arg-type]

    def forward(self, images: Tensor) -> BackboneOutput:
        down, across = (side // self.patch for side in images.shape[2:])
        if self.kind.patches_as_rows:
            shapes = torch.tensor([[down, across]] * len(images))  # read on the CPU
            rows = patches(images, self.patch)
            output = self.model(rows, pixel_attention_mask=None, spatial_shapes=shapes, output_hidden_states=True)
        else:
            output = self.model(images, interpolate_pos_encoding=True, output_hidden_states=True)
        norm, maps = getattr(self.model, self.kind.norm), []
        for layer in self.layers:
            cells = norm(output.hidden_states[layer])[:, -down * across :]  # (B, N, C)
            maps.append(cells.transpose(1, 2).unflatten(2, (down, across)))
        return BackboneOutput(feature_maps=tuple(maps))

    def save_pretrained(self, folder: Path) -> None:
        """Write the model as `transformers` does; its configuration names the two layers."""
        self.model.save_pretrained(folder)  # type: ignore[operator]


def patches(images: Tensor, side: int) -> Tensor:
    """(B, 3, H, W) -> (B, N, P * P * 3), row by row; pixels beyond the last whole patch are cut off."""
    batch, channels, height, width = images.shape
    down, across = height // side, width // side
    cut = images[:, :, : down * side, : across * side].reshape(batch, channels, down, side, across, side)
    return cut.permute(0, 2, 4, 3, 5, 1).reshape(batch, down * across, side * side * channels)


def _classes(kind: Kind) -> tuple[Any, Any]:
    with torch.device("cpu"):  # the caller's may be meta, where the import of a library can fail
        import transformers

        return getattr(transformers, kind.prefix + kind.config), getattr(transformers, kind.prefix + kind.model)


def _without_pooling(config: Any, kind: Kind) -> tuple[Any, dict[str, Any]]:
    """The configuration and arguments of a model without the part that sums up an image in one vector."""
    config = copy.deepcopy(config)
    if kind.prefix.startswith("Siglip"):
        config.vision_use_head = False
    return config, {"add_pooling_layer": False} if kind.prefix == "ViT" else {}


def load_tower(name: str | Path, model_type: str, **how: Any) -> VisionTower:
    """The images' half of a stored model: the whole CLIP or SigLIP, or only that half."""
    kind = KINDS[model_type]
    config_class, model_class = _classes(kind)
    stored = config_class.from_pretrained(name, local_files_only=how["local_files_only"])
    config, arguments = _without_pooling(stored, kind)
    with _no_reports():
        model, loaded = model_class.from_pretrained(name, config=config, output_loading_info=True, **arguments, **how)
    if missing := sorted(loaded["missing_keys"]):
        raise ValueError(f"{len(missing)} weights of the image model are missing, the first: {missing[0]}")
    return VisionTower(model, kind).eval()


@contextlib.contextmanager
def _no_reports() -> Iterator[None]:
    """Without the list of the weights that are not needed: the text model's."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def tower_from_config(stored: Mapping[str, Any]) -> VisionTower:
    """An untrained one with a stored configuration."""
    kind = KINDS[stored["model_type"]]
    config_class, model_class = _classes(kind)
    config, arguments = _without_pooling(config_class.from_dict(dict(stored)), kind)
    return VisionTower(model_class(config, **arguments), kind).eval()
