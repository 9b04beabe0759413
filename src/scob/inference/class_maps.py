"""Class maps of a trained network: activation maps (Eq. 2) and masks (Eq. 3) of (image, class) pairs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from scob.algorithm.cam import Maps, activation_maps, masks_of

if TYPE_CHECKING:
    from scob.model.backbone import Features
    from scob.model.heads import Keep
    from scob.model.network import Network

PAIRS = 64  # (image, class) pairs differentiated at once: bounds the memory for any number of classes


@dataclass(frozen=True)
class MapSettings:
    """How maps and masks are computed.

    `cam` is grad or grad++ (Eq. 2). With `source` 'each' both stages have their own map; with 'stage4' stage 3 takes
    stage 4's. `windows` (stage 3, stage 4) and `threshold` belong to Eq. 3. With `mirror`, explanations average the
    maps of the image and of its mirror image, which costs a second pass of the backbone.
    """

    cam: str = "grad"
    source: str = "each"
    windows: tuple[int, int] = (3, 1)
    threshold: float = 0.5
    mirror: bool = False


@dataclass(frozen=True)
class ClassMaps:
    """P pairs: maps (P, h3, w3) and (P, h4, w4) in [0, 1], their combined heat (P, h3, w3), and both stages' masks."""

    maps: Maps
    heat: Tensor
    masks: "Keep"


def class_maps(
    network: "Network", features: "Features", rows: Tensor, classes: Tensor, settings: MapSettings = MapSettings()
) -> ClassMaps:
    """Maps of some pairs, from features of B images: rows (P,) in [0, B), classes (P,); class -1 gives zeros.

    The heat is the mean of both stages' maps: stage 4 is better at the class, stage 3 at the outline.
    """
    chunks = []
    for start in range(0, len(rows), PAIRS):
        part = rows[start : start + PAIRS]
        with torch.enable_grad():
            leaves = (
                features[0][part].detach().clone().requires_grad_(),
                features[1][part].detach().clone().requires_grad_(),
            )
            logits = network.classify(leaves).float()
            maps = activation_maps(logits, leaves, classes[start : start + PAIRS], settings.cam, settings.source)
        chunks.append((*maps, combined(maps), *masks_of(maps, settings.windows, settings.threshold)))
    third, fourth, heat, third_mask, fourth_mask = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    return ClassMaps((third, fourth), heat, (third_mask, fourth_mask))


def combined(maps: Maps) -> Tensor:
    """The mean of both stages' maps at stage 3's grid, divided by its maximum: (P, h3, w3)."""
    third, fourth = maps
    coarse = F.interpolate(fourth[:, None], size=third.shape[1:], mode="bilinear", align_corners=False)[:, 0]
    mean = (third + coarse) / 2
    peak = mean.amax(dim=(1, 2), keepdim=True)
    return mean / torch.where(peak > 0, peak, torch.ones_like(peak))
