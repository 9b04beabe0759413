"""Where a network sees classes: the one way from features to places, for `explain`, `recover` and the review page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from scob.algorithm.cam import scaled
from scob.inference.class_maps import ClassMaps, HeadPass, class_maps
from scob.inference.competition import places_of
from scob.inference.parts import Heat, Place
from scob.inference.predictions import NamingRule

if TYPE_CHECKING:
    from torch import Tensor

    from scob.algorithm.cam import MapSettings
    from scob.inference.model import Scob
    from scob.model.backbone import Features
    from scob.model.heads import Keep

RIVALS = 4  # predicted classes, at most, that compete for an image's cells without being asked about


@dataclass(frozen=True)
class Located:
    """P asked pairs (image, class) in order: their maps (P, h, w), their places, and both stages' masks (Eq. 3)."""

    heats: Heat
    places: tuple[Place | None, ...]
    masks: "Keep"


@dataclass(frozen=True)
class Views:
    """The features of B images and, if maps are averaged over both, of their mirror images; one image's head pass."""

    plain: "Features"
    mirrored: "Features | None" = None
    head: HeadPass | None = None


@torch.no_grad()
def views_of(model: "Scob", pixels: NDArray[np.uint8], mirror: bool = False) -> Views:
    """Features of decoded pictures (B, S, S, 3): one pass of the backbone, or two with mirror images."""
    images = model.prepare(pixels)
    backbone = model.network.backbone
    return Views(backbone(images), backbone(images.flip(3)) if mirror else None)


def scored_views(
    model: "Scob", pixels: NDArray[np.uint8], mirror: bool = False
) -> Iterator[tuple[Views, NDArray[np.float32]]]:
    """Features and scores (B, L) of decoded pictures.

    A GPU scores all of them at once. A CPU scores one by one, and differentiates the pass that gave the scores: a
    second one would cost a third of the backbone's time.
    """
    views = views_of(model, pixels, mirror)
    if model.device.type != "cpu":
        with torch.no_grad():
            yield views, model.network.classify(views.plain).float().sigmoid().cpu().numpy()
        return
    for n in range(len(pixels)):
        plain = views.plain[0][n : n + 1], views.plain[1][n : n + 1]
        mirrored = views.mirrored and (views.mirrored[0][n : n + 1], views.mirrored[1][n : n + 1])
        head = HeadPass.over(model.network, plain)
        yield Views(plain, mirrored, head), head.logits.detach().sigmoid().numpy()


def locate(
    model: "Scob",
    views: Views,
    scores: NDArray[np.float32],
    asked: Sequence[Sequence[int]],
    settings: "MapSettings",
) -> Located:
    """The places of the asked classes of each image: scores (B, L), `asked` one list of columns per image.

    Classes that are predicted but not asked about take part in the competition for cells.
    """
    drawn = [[*own, *rivals(line, model.thresholds, own)] for own, line in zip(asked, scores, strict=True)]
    pairs = [(row, column) for row, own in enumerate(drawn) for column in own]
    is_asked = np.array(
        [n < len(own) for own, every in zip(asked, drawn, strict=True) for n in range(len(every))], bool
    )
    if not is_asked.any():
        empty = torch.zeros((0, 1, 1), dtype=torch.bool)
        return Located(np.zeros((0, 1, 1), np.float32), (), (empty, empty))
    rows, columns = torch.tensor(pairs, device=model.device).T
    maps = averaged_maps(model, views, rows, columns, settings)
    heats = maps.heat.float().cpu().numpy()
    places: list[Place | None] = []
    start = 0
    for row, (own, every) in enumerate(zip(asked, drawn, strict=True)):
        if own:
            found = places_of(heats[start : start + len(every)], scores[row, every], settings.threshold)
            places += found[: len(own)]
        start += len(every)
    keep = torch.from_numpy(is_asked).to(model.device)
    return Located(heats[is_asked], tuple(places), (maps.masks[0][keep], maps.masks[1][keep]))


def rivals(scores: NDArray[np.float32], thresholds: NDArray[np.float32], asked: Sequence[int]) -> list[int]:
    """The predicted classes of an image, by scores (L,), that nobody asked about; none if nobody asked at all."""
    if not asked:
        return []
    return [column for column in NamingRule().columns(scores, thresholds) if column not in asked][:RIVALS]


def averaged_maps(model: "Scob", views: Views, rows: "Tensor", columns: "Tensor", settings: "MapSettings") -> ClassMaps:
    """Maps of pairs; with mirror images, the heat is the mean of both, divided by its maximum."""
    maps = class_maps(model.network, views.plain, rows, columns, settings, views.head)
    if views.mirrored is None:
        return maps
    mirrored = class_maps(model.network, views.mirrored, rows, columns, settings).heat.flip(2)
    return ClassMaps(maps.maps, scaled((maps.heat + mirrored) / 2), maps.masks)
