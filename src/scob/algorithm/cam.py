"""Class activation maps (Eq. 2-3): gradient -> activation -> binary mask, for a whole batch at once, on the device.

The logit of a class is differentiated, not its probability: the gradient of a saturated probability vanishes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from scob.model.backbone import Features
from scob.model.heads import Keep
from scob.model.network import full

Maps = tuple[Tensor, Tensor]


def leaves(features: Features) -> Features:
    """Features as leaves that accumulate a gradient: detached if the backbone is frozen, otherwise unchanged."""
    third, fourth = (f if f.requires_grad else f.detach().requires_grad_() for f in features)
    return third, fourth


def activations(features: Tensor, gradient: Tensor, kind: str = "grad") -> Tensor:
    """Eq. 2, divided by the map's own maximum: features and gradient (B, K, h, w) -> (B, h, w) in [0, 1].

    `grad` averages the gradient over space for the channel weights. `grad++` weights each cell's positive gradient
    by g^2 / (2 g^2 + sum(F) g^3) instead (Chattopadhay et al. 2018, for an exponential score).
    """
    f, g = full(features), full(gradient)
    if kind == "grad":
        weights = g.mean(dim=(2, 3), keepdim=True)
    else:
        square = g.square()
        denominator = 2 * square + f.sum(dim=(2, 3), keepdim=True) * square * g
        share = square / torch.where(denominator.abs() > 1e-12, denominator, torch.ones_like(denominator))
        weights = (share * g.relu()).sum(dim=(2, 3), keepdim=True)
    heat = F.relu((weights * f).mean(dim=1))
    peak = heat.amax(dim=(1, 2), keepdim=True)
    return heat / torch.where(peak > 0, peak, torch.ones_like(peak))


def foreground(heat: Tensor, window: int, threshold: float) -> Tensor:
    """Eq. 3: average over an l x l window, keep the cells that reach the threshold: (B, h, w) -> (B, h, w) bool.

    A map without any activation has no foreground, even with a threshold of 0.
    """
    if window > 1:
        padding = window // 2
        smooth = F.avg_pool2d(heat[:, None], window, 1, padding, count_include_pad=False)[:, 0]
        smooth = smooth[:, : heat.shape[1], : heat.shape[2]]
    else:
        smooth = heat
    return (smooth >= threshold) & (heat.amax(dim=(1, 2), keepdim=True) > 0)


def activation_maps(
    logits: Tensor, features: Features, classes: Tensor, kind: str = "grad", source: str = "each"
) -> Maps:
    """One class's map for each image, at both stages.

    logits (B, L) computed from `features` (which require a gradient); classes (B,) of class indices, -1 for none (its
    map is 0). `source="stage4"` uses the map of stage 4 at both stages. The gradient stops at the features; the graph
    is kept for the losses.
    """
    class_logits = logits.gather(1, classes.clamp(min=0)[:, None])[:, 0] * (classes >= 0)
    gradients = torch.autograd.grad(full(class_logits).sum(), features, retain_graph=True, allow_unused=True)
    maps = [
        activations(f.detach(), g if g is not None else torch.zeros_like(f), kind)
        for f, g in zip(features, gradients, strict=True)
    ]
    # A head that reads only stage 4 gives stage 3 no gradient, so stage 3 takes the map of stage 4.
    if source == "stage4" or gradients[0] is None:
        maps[0] = F.interpolate(maps[1][:, None], size=features[0].shape[2:], mode="bilinear", align_corners=False)[
            :, 0
        ]
    return maps[0], maps[1]


def masks_of(maps: Maps, windows: tuple[int, int], threshold: float) -> Keep:
    """Eq. 3 at both stages."""
    return foreground(maps[0], windows[0], threshold), foreground(maps[1], windows[1], threshold)
