"""Class maps of a trained network: activation maps (Eq. 2) and masks (Eq. 3) of (image, class) pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from scob.algorithm.cam import Maps, MapSettings, activation_maps, likeness, masks_of, scaled

if TYPE_CHECKING:
    from scob.model.backbone import Features
    from scob.model.heads import Keep
    from scob.model.network import Network

PAIRS = 64  # (image, class) pairs differentiated at once: bounds the memory for any number of images and classes


EXPLAINED = MapSettings("sharp", steps=6, floor=True)  # what explanations are drawn with: the best we have (masks.md)


@dataclass(frozen=True)
class ClassMaps:
    """P pairs: maps (P, h3, w3) and (P, h4, w4) in [0, 1], their combined heat (P, h3, w3), and both stages' masks."""

    maps: Maps
    heat: Tensor
    masks: "Keep"


@dataclass(frozen=True)
class HeadPass:
    """The head's pass over some images, kept for its gradients: features that require one, and logits (B, L)."""

    features: "Features"
    logits: Tensor

    @classmethod
    def over(cls, network: "Network", features: "Features") -> "HeadPass":
        """Run the head."""
        with torch.enable_grad():
            leaves = (
                features[0].detach().clone().requires_grad_(),
                features[1].detach().clone().requires_grad_(),
            )
            return cls(leaves, network.classify(leaves).float())


def class_maps(
    network: "Network",
    features: "Features",
    rows: Tensor,
    classes: Tensor,
    settings: MapSettings = EXPLAINED,
    head: HeadPass | None = None,
) -> ClassMaps:
    """Maps of some pairs, from features of B images: rows (P,) in [0, B), classes (P,); class -1 gives zeros.

    The head runs once for each image and backwards once for each pair; `head` may be given if B is 1. The heat is the
    map at stage 3's grid; if both stages have their own, the mean of the two.
    """
    numbers: list[int] = []
    chunks = []
    for images, pairs in _same_number_of_pairs(rows.tolist()):
        passed = head or HeadPass.over(network, (features[0][images], features[1][images]))
        alike = likeness(passed.features[0].detach()) if settings.source == "spread" else None
        for one_each in zip(*pairs, strict=True):
            numbers += one_each
            with torch.enable_grad():
                asked = classes[list(one_each)]
                maps = activation_maps(passed.logits, passed.features, asked, settings, alike)
            heat = combined(maps) if settings.source == "each" else maps[0]
            chunks.append((*maps, heat, *masks_of(maps, settings)))
    order = torch.tensor(numbers, device=features[0].device).argsort()
    third, fourth, heat, third_mask, fourth_mask = (torch.cat(parts)[order] for parts in zip(*chunks, strict=True))
    return ClassMaps((third, fourth), heat, (third_mask, fourth_mask))


def _same_number_of_pairs(rows: list[int]) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Images that occur equally often in `rows`, at most PAIRS at once, with the numbers of each image's pairs."""
    pairs_of: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        pairs_of.setdefault(row, []).append(number)
    for count in sorted({len(pairs) for pairs in pairs_of.values()}):
        images = [row for row, pairs in pairs_of.items() if len(pairs) == count]
        for start in range(0, len(images), PAIRS):
            together = images[start : start + PAIRS]
            yield together, [pairs_of[row] for row in together]


def combined(maps: Maps) -> Tensor:
    """The mean of both stages' maps at stage 3's grid, divided by its maximum: (P, h3, w3)."""
    third, fourth = maps
    coarse = F.interpolate(fourth[:, None], size=third.shape[1:], mode="bilinear", align_corners=False)[:, 0]
    return scaled((third + coarse) / 2)
