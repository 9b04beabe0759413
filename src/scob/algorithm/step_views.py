"""The views of a step (Eq. 6-7) as backbone features. Whether they are cached or computed is decided here."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from scob.algorithm.sampling import Batch
from scob.model.backbone import Features
from scob.model.features import FeatureSource


@dataclass(frozen=True)
class StepViews:
    """Features of the views of a step, and which images of each view are mirrored (n,).

    `clean` has all images of the batch, everything else the n that are contrasted, which are its first. `strong` is a
    function: a backbone that is trained computes the strong view only when it is needed, after its first update.
    `positive` is the weak view of the class positives, or None if every image is its own positive.
    """

    clean: Features
    clean_flip: Tensor
    strong: Callable[[], Features]
    strong_flip: Tensor
    positive: Features | None
    positive_flip: Tensor


def compute_views(
    source: FeatureSource, whole: Batch, class_positives: bool, contrasted: Batch | None = None
) -> StepViews:
    """Features of the clean view of a batch and, for the part of it that is contrasted, of the strong view and, with
    class positives, the positives' weak view.

    A frozen backbone computes all views that are not cached in one forward pass. Almost half of the strong views only
    mirror the image, so their features are those of a clean view; a CPU does not compute them again. (A GPU would have
    to wait to learn which they are.)
    """
    views, cache, frozen = source.views, source.cache, source.backbone.frozen
    batch = whole if contrasted is None else contrasted
    images = batch.images
    assert images is not None
    whole_flip = views.flips(whole.keys, "clean")
    clean_flip = whole_flip[: len(batch.rows)]
    strong_flip = views.flips(batch.keys, "strong")
    positive_flip = views.flips(batch.keys, "positive")

    changed: Tensor | slice = slice(None)
    if frozen and images.device.type == "cpu":
        changed = rows_to_compute(views.recoloured(batch.keys), None if cache is not None else clean_flip ^ strong_flip)

    def strong_view() -> Tensor:
        return views.strong(images[changed], strong_flip[changed], batch.keys[changed])

    pixels = [strong_view()] if frozen else []
    if cache is None:
        assert whole.images is not None
        pixels.append(views.weak(whole.images, whole_flip))
        if class_positives:
            assert batch.positive_images is not None
            pixels.append(views.weak(batch.positive_images, positive_flip))
    features = source.of(*pixels)
    strong = features.pop(0) if frozen else None
    clean = cache.read(whole.rows, whole_flip) if cache is not None else features[0]
    positive = None
    if class_positives:
        positive = cache.read(batch.positives, positive_flip) if cache is not None else features[1]

    if strong is not None and isinstance(changed, Tensor):
        plain = cache.read(batch.rows, strong_flip) if cache is not None else first(clean, len(batch.rows))
        strong = replaced(plain[0], changed, strong[0]), replaced(plain[1], changed, strong[1])

    def strong_features() -> Features:
        return strong if strong is not None else source.of(strong_view())[0]

    return StepViews(clean, clean_flip, strong_features, strong_flip, positive, positive_flip)


def first(features: Features, count: int) -> Features:
    """The features of the first images."""
    return features[0][:count], features[1][:count]


def rows_to_compute(recoloured: Tensor, turned: Tensor | None) -> Tensor:
    """The strong views (b,) that are not clean views: those with other colours and, without a cache, those turned.

    At least one: not every backbone takes an empty batch.
    """
    rows = (recoloured if turned is None else recoloured | turned).nonzero()[:, 0]
    return rows if len(rows) else rows.new_zeros(1)


def replaced(features: Tensor, rows: Tensor, by: Tensor) -> Tensor:
    """Features (B, ...) with some rows (b,) replaced by others (b, ...)."""
    return features.index_copy(0, rows, by.to(features.dtype))
