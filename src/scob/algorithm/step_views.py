"""The views of a step (Eq. 6-7) as backbone features. Whether they are cached or computed is decided here."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from scob.algorithm.sampling import Batch
from scob.model.backbone import Features
from scob.model.features import FeatureSource


@dataclass(frozen=True)
class StepViews:
    """Features of a batch's views, and which images of each view are mirrored (B,).

    `strong` is a function: a backbone that is trained computes the strong view only when it is needed, after its first
    update. `positive` is the weak view of the class positives, or None if every image is its own positive.
    """

    clean: Features
    clean_flip: Tensor
    strong: Callable[[], Features]
    strong_flip: Tensor
    positive: Features | None
    positive_flip: Tensor


def compute_views(source: FeatureSource, batch: Batch, class_positives: bool) -> StepViews:
    """Features of the clean view, the strong view and, with class positives, the positives' weak view.

    A frozen backbone computes all views that are not cached in one forward pass.
    """
    views, cache, frozen = source.views, source.cache, source.backbone.frozen
    images = batch.images
    assert images is not None
    clean_flip = views.flips(batch.keys, "clean")
    strong_flip = views.flips(batch.keys, "strong")
    positive_flip = views.flips(batch.keys, "positive")

    def strong_view() -> Tensor:
        return views.strong(images, strong_flip, batch.keys)

    pixels = [strong_view()] if frozen else []
    if cache is None:
        pixels.append(views.weak(images, clean_flip))
        if class_positives:
            assert batch.positive_images is not None
            pixels.append(views.weak(batch.positive_images, positive_flip))
    features = source.of(*pixels)
    strong = features.pop(0) if frozen else None
    clean = cache.read(batch.rows, clean_flip) if cache is not None else features[0]
    positive = None
    if class_positives:
        positive = cache.read(batch.positives, positive_flip) if cache is not None else features[1]

    def strong_features() -> Features:
        return strong if strong is not None else source.of(strong_view())[0]

    return StepViews(clean, clean_flip, strong_features, strong_flip, positive, positive_flip)
