"""Kept features are the features, wherever they are kept."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.data.views import Views
from scob.errors import UserError
from scob.model.backbone import Backbone
from scob.model.features import FeatureSource, cache_features, fast_backbone, resolve_precision
from scob.model.fold import has_batchnorm
from scob.model.load_backbone import load_backbone
from scob.model.row_tables import RowStorage


@pytest.mark.parametrize("place", ["device", "host", "disk"])
def test_a_cache_gives_what_the_backbone_gives(
    backbone: Backbone, images: torch.Tensor, place: str, tmp_path: Path
) -> None:
    views = Views(64)
    live = FeatureSource(backbone, views, "fp32")
    cache = cache_features(live, [images[:4], images[4:]], 7, RowStorage(place, tmp_path))
    rows, flip = torch.tensor([6, 0, 3, 3]), torch.tensor([True, False, True, False])
    expected = live.of(views.weak(images[rows], flip))[0]
    for a, b in zip(cache.read(rows, flip), expected, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
        assert not torch.allclose(a[2], a[3], atol=1e-3)  # the mirrored image is another one
    padded = cache.read(torch.tensor([7]), torch.tensor([False]))
    assert torch.isfinite(padded[0]).all()
    assert (place == "disk") == any(tmp_path.iterdir())


def test_views_together_are_views_apart(backbone: Backbone, images: torch.Tensor) -> None:
    source, views = FeatureSource(backbone, Views(64), "fp32"), Views(64)
    one, two = views.weak(images[:3], torch.zeros(3, dtype=torch.bool)), views.weak(images[3:], torch.ones(4).bool())
    together, apart = source.of(one, two), [source.of(one)[0], source.of(two)[0]]
    for a, b in zip(together, apart, strict=True):
        assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(a, b, strict=True))
    assert source.forwards == 4


def test_a_backbone_that_learns_has_no_cache(tiny_backbone: Path, images: torch.Tensor) -> None:
    source = FeatureSource(load_backbone(str(tiny_backbone), "stages"), Views(64), "fp32")
    with pytest.raises(UserError, match="freeze=all"):
        cache_features(source, [images], 7, RowStorage())


def test_on_a_cpu_a_frozen_backbone_is_folded(tiny_backbone: Path, images: torch.Tensor) -> None:
    frozen, views = load_backbone(str(tiny_backbone)), Views(64)
    assert has_batchnorm(frozen)
    for norm in (part for part in frozen.modules() if isinstance(part, torch.nn.BatchNorm2d)):
        norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
        norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    fast = fast_backbone(frozen, "fp32")
    assert fast is not None and not has_batchnorm(fast)
    pixels = views.normalise(images)
    exact, folded = (FeatureSource(frozen, views, "fp32", copy).of(pixels) for copy in (None, fast))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(exact[0], folded[0], strict=True))
    assert fast_backbone(frozen, "fp64") is None
    assert fast_backbone(load_backbone(str(tiny_backbone), "stages"), "fp32") is None, "its BatchNorm may change"


def test_precision() -> None:
    assert resolve_precision(torch.device("cpu"), "auto") == "fp32"
    assert resolve_precision(torch.device("cpu"), "bf16") == "bf16"


def test_a_gpu_that_only_emulates_bf16_computes_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert resolve_precision(device, "auto") == "fp32"
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert resolve_precision(device, "auto") == "bf16"


def test_metal_refuses_64_bit_numbers_in_words() -> None:
    with pytest.raises(UserError, match=r"Metal has no 64-bit numbers: use train\.device=cpu"):
        resolve_precision(torch.device("mps"), "fp64")
    assert resolve_precision(torch.device("mps"), "auto") == "fp32"


def test_training_with_kept_features_is_training(run_small: Any) -> None:
    """Nearly the same numbers: batches of another size may round differently."""
    from support.runs import logged

    for words in ((), ("scob.positive=self",)):
        plain, kept = run_small(*words), run_small(*words, "train.feature_cache=device")
        assert logged(kept, "class") == pytest.approx(logged(plain, "class"), rel=2e-3)
