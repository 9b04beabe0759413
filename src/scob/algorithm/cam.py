"""Class activation maps (Eq. 2-3): gradient -> activation -> binary mask, for a whole batch at once, on the device.

The logit of a class is differentiated, not its probability: the gradient of a saturated probability vanishes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from scob.config import ScobSettings
from scob.model.backbone import Features
from scob.model.heads import Keep
from scob.model.network import full

Maps = tuple[Tensor, Tensor]
ALIKE = 0.05  # of an image's cells: those that a cell shares its map with in a step
HIGHEST, HALVINGS = 6.0, 7  # the power of `likeness` is at most 2^6; its logarithm is found to 6 / 2^7
CAMS: tuple[str, ...] = ("sharp", "grad", "grad++", "layer")


@dataclass(frozen=True)
class MapSettings:
    """How maps and masks are computed.

    `cam` chooses the weights of Eq. 2 (`activations`), `source` whose map each stage uses: its own (`each`), or that of
    stage 4 (`from_stage_4`), with `spread` in some `steps`. `windows` (stage 3, stage 4) and `threshold` belong to
    Eq. 3. With `mirror`, explanations average the maps of the image and of its mirror image, which costs a second pass
    of the backbone. `floor` takes the lowest value of a spread map away (`above_floor`).
    """

    cam: str = "grad"
    source: str = "spread"
    steps: int = 4
    windows: tuple[int, int] = (3, 1)
    threshold: float = 0.5
    mirror: bool = False
    floor: bool = False

    @classmethod
    def of(cls, settings: ScobSettings) -> "MapSettings":
        """Those that a run is trained with."""
        s = settings
        return cls(s.cam, s.cam_source, s.cam_steps, s.cam_window, s.gamma_cam)


def leaves(features: Features) -> Features:
    """Features as leaves that accumulate a gradient: detached if the backbone is frozen, otherwise unchanged."""
    third, fourth = (f if f.requires_grad else f.detach().requires_grad_() for f in features)
    return third, fourth


def activations(features: Tensor, gradient: Tensor, kind: str = "grad") -> Tensor:
    """Eq. 2, divided by the map's own maximum: features and gradient (B, K, h, w) -> (B, h, w) in [0, 1].

    `grad` averages the gradient over space for the channel weights. `grad++` weights each cell's positive gradient
    by g^2 / (2 g^2 + sum(F) g^3) instead (Chattopadhay et al. 2018, for an exponential score). `layer` weights every
    cell by its own positive gradient (Jiang et al. 2021). `sharp` is the geometric mean of `grad` and `layer`.
    """
    f, g = full(features), full(gradient)
    if kind == "sharp":
        return scaled((activations(f, g, "grad") * activations(f, g, "layer")).sqrt())
    if kind == "grad":
        weights = g.mean(dim=(2, 3), keepdim=True)
    elif kind == "layer":
        weights = g.relu()
    else:
        square = g.square()
        denominator = 2 * square + f.sum(dim=(2, 3), keepdim=True) * square * g
        share = square / torch.where(denominator.abs() > 1e-12, denominator, torch.ones_like(denominator))
        weights = (share * g.relu()).sum(dim=(2, 3), keepdim=True)
    return scaled(F.relu((weights * f).mean(dim=1)))


def scaled(heat: Tensor) -> Tensor:
    """Each map (B, h, w) divided by its own maximum; a map of zeros stays as it is."""
    peak = heat.amax(dim=(1, 2), keepdim=True)
    return heat / torch.where(peak > 0, peak, torch.ones_like(peak))


def spread(heat: Tensor, alike: Tensor, steps: int) -> Tensor:
    """Maps (B, h, w) spread over the cells that look alike, by `likeness` (B, n, n) of the same grid -> (B, h, w).

    In each step every cell takes the mean heat of all cells, weighted by how alike they are. An object's cells share
    what some of them have, and what the rest of the image has by chance is averaged away.
    """
    flat = heat.flatten(1)[:, :, None]
    for _ in range(steps):
        flat = alike @ flat
    return scaled(flat.reshape(heat.shape))


def above_floor(heat: Tensor) -> Tensor:
    """Maps (B, h, w) from which their lowest value is taken away, scaled: spreading raises all cells of a map."""
    return scaled(heat - heat.amin(dim=(1, 2), keepdim=True))


def find_power(cosine: Tensor, share: float = ALIKE) -> Tensor:
    """The logarithm of the power of `likeness` for each image: cosines of its cells (B, n, n) -> (B, 1, 1).

    It is the lowest power at which a cell listens, on average, to at most `share` of all cells (counted as (sum w)^2 /
    sum w^2).
    """
    low = torch.zeros(len(cosine), 1, 1, dtype=cosine.dtype, device=cosine.device)
    high = low + HIGHEST
    for _ in range(HALVINGS):  # of the interval that has the logarithm of the power
        middle = (low + high) / 2
        powered = cosine ** middle.exp2()
        heard = powered.sum(dim=2).square() / powered.square().sum(dim=2).clamp(min=1e-30)
        too_many = (heard.mean(dim=1) > share * cosine.shape[1])[:, None, None]
        low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
    return high


def likeness(features: Tensor, find: Callable[[Tensor], Tensor] = find_power) -> Tensor:
    """How alike the cells of each image are, features (B, K, h, w) -> (B, n, n) with rows that add up to 1.

    The cosine between two cells' features (minus the image's mean feature; a negative one counts as 0), to a power that
    `find` gives for each image: by default `find_power`; `KnownPowers` finds each only once. So likeness means the same
    for features that differ much and for those that differ little.
    """
    cells = full(features).flatten(2).transpose(1, 2)
    cells = F.normalize(cells - cells.mean(dim=1, keepdim=True), dim=2)
    cosine = (cells @ cells.transpose(1, 2)).relu()
    powered = cosine ** find(cosine).exp2()
    total = powered.sum(dim=2, keepdim=True)
    alone = torch.eye(cells.shape[1], dtype=cells.dtype, device=cells.device)  # cells that are all equal keep their own
    return torch.where(total > 0, powered / torch.where(total > 0, total, torch.ones_like(total)), alone)


def from_stage_4(fourth: Tensor, third_features: Tensor, settings: MapSettings, alike: Tensor | None = None) -> Maps:
    """Stage 4's maps (B, h, w) brought to both stages: enlarged for stage 3 (`stage4`), or also spread (`spread`)."""
    height, width = third_features.shape[2:]
    enlarged = F.interpolate(fourth[:, None], size=(height, width), mode="bilinear", align_corners=False)[:, 0]
    if settings.source != "spread":
        return enlarged, fourth
    wide = spread(enlarged, likeness(third_features) if alike is None else alike, settings.steps)
    wide = above_floor(wide) if settings.floor else wide
    return wide, scaled(F.adaptive_avg_pool2d(wide[:, None], (fourth.shape[1], fourth.shape[2]))[:, 0])


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
    logits: Tensor,
    features: Features,
    classes: Tensor,
    settings: MapSettings = MapSettings(),
    alike: Tensor | None = None,
) -> Maps:
    """One class's map for each image, at both stages.

    logits (B, L) computed from `features` (which require a gradient), or from those of their first B images; classes
    (B,) of class indices, -1 for none (its map is 0). The gradient stops at the features; the graph is kept for the
    losses. `alike` is the `likeness` of stage 3's features, for who needs the maps of several classes: it is the same
    for all of them.
    """
    class_logits = logits.gather(1, classes.clamp(min=0)[:, None])[:, 0] * (classes >= 0)
    own = settings.source == "each"
    sources = features if own else features[1:]  # without stage 3's gradient, only the head's half at stage 4 is passed
    gradients = torch.autograd.grad(full(class_logits).sum(), sources, retain_graph=True, allow_unused=True)
    count = len(classes)
    third_features, fourth_features = (stage.detach()[:count] for stage in features)
    of_fourth = torch.zeros_like(fourth_features) if gradients[-1] is None else gradients[-1][:count]
    fourth = activations(fourth_features, of_fourth, settings.cam)
    if own and gradients[0] is not None:
        return activations(third_features, gradients[0][:count], settings.cam), fourth
    return from_stage_4(fourth, third_features, settings, alike)  # also if a head reads only stage 4


def masks_of(maps: Maps, settings: MapSettings = MapSettings()) -> Keep:
    """Eq. 3 at both stages."""
    (third, fourth), s = maps, settings
    return foreground(third, s.windows[0], s.threshold), foreground(fourth, s.windows[1], s.threshold)
