"""The views of a step: the same features with and without a cache."""

from typing import Any

import pytest
import torch

from scob.algorithm.step_views import compute_views
from support.runs import batches_of


@pytest.mark.parametrize("class_positives", [True, False])
def test_cached_features_equal_computed_ones(experiment_of: Any, class_positives: bool) -> None:
    computed, cached = experiment_of("scob.positive=class"), experiment_of("train.feature_cache=host")
    batch = next(batches_of(computed, 1))
    one, two = (compute_views(e.source, batch, class_positives) for e in (computed, cached))
    assert (one.positive is not None) == (two.positive is not None) == class_positives
    pairs = [(one.clean, two.clean), (one.strong(), two.strong())]
    if one.positive is not None and two.positive is not None:
        pairs.append((one.positive, two.positive))
    for a, b in pairs:
        assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(a, b, strict=True))
    for name in ("clean_flip", "strong_flip", "positive_flip"):
        assert torch.equal(getattr(one, name), getattr(two, name))


def test_each_view_has_the_features_of_its_own_pixels(experiment_of: Any) -> None:
    e = experiment_of()
    batch = next(batches_of(e, 1))
    views = compute_views(e.source, batch, True)
    assert batch.images is not None and batch.positive_images is not None and views.positive is not None
    own = e.source.views
    expected = (
        (views.clean, own.weak(batch.images, views.clean_flip)),
        (views.strong(), own.strong(batch.images, views.strong_flip, batch.keys)),
        (views.positive, own.weak(batch.positive_images, views.positive_flip)),
    )
    for features, pixels in expected:
        alone = e.source.of(pixels)[0]
        assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(features, alone, strict=True))


def test_a_backbone_that_is_trained_computes_the_strong_view_when_it_is_needed(experiment_of: Any) -> None:
    e = experiment_of("model.freeze=none")
    batch = next(batches_of(e, 1))
    views = compute_views(e.source, batch, False)
    before = views.strong()[1].detach().clone()
    with torch.no_grad():
        for parameter in e.network.backbone.parameters():
            parameter.mul_(1.1)
    assert not torch.allclose(views.strong()[1], before)


@pytest.mark.parametrize("words", [(), ("train.feature_cache=host",)])
def test_strong_views_that_are_clean_views_are_not_computed_again(experiment_of: Any, words: tuple[str, ...]) -> None:
    e = experiment_of("scob.positive=self", *words)
    batch = next(batches_of(e, 1))
    computed: list[int] = []
    backbone = e.source.fast or e.network.backbone
    with backbone.register_forward_hook(lambda module, inputs, maps: computed.append(len(inputs[0]))):
        views = compute_views(e.source, batch, False)
    recoloured = e.source.views.recoloured(batch.keys)
    assert 0 < recoloured.sum() < len(recoloured)
    turned = views.clean_flip ^ views.strong_flip
    expected = int(recoloured.sum()) if words else len(recoloured) + int((recoloured | turned).sum())
    assert computed == [expected]


def test_a_step_in_which_every_strong_view_is_a_clean_one(experiment_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    e = experiment_of("train.feature_cache=host")
    batch = next(batches_of(e, 1))
    monkeypatch.setattr(e.source.views, "recoloured", lambda keys: torch.zeros_like(keys, dtype=torch.bool))
    views = compute_views(e.source, batch, False)
    expected = e.source.clean(batch.rows, None, views.strong_flip)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(views.strong(), expected, strict=True))


@pytest.mark.parametrize("words", [(), ("train.feature_cache=host",), ("model.freeze=none",)])
def test_only_the_contrasted_images_have_more_than_a_clean_view(experiment_of: Any, words: tuple[str, ...]) -> None:
    e = experiment_of(*words)
    batch = next(batches_of(e, 1))
    every, some = compute_views(e.source, batch, True), compute_views(e.source, batch, True, batch.first(3))
    assert every.positive is not None and some.positive is not None
    pairs = [(every.clean, some.clean, len(batch.rows)), (every.strong(), some.strong(), 3)]
    for whole, part, count in (*pairs, (every.positive, some.positive, 3)):
        for expected, features in zip(whole, part, strict=True):
            torch.testing.assert_close(features, expected[:count], atol=1e-5, rtol=0)
    for name in ("clean_flip", "strong_flip", "positive_flip"):
        assert torch.equal(getattr(some, name), getattr(every, name)[:3])
