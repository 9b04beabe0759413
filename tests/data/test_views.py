"""Views: keyed draws, the same geometry for image and mask, and the shares and ranges that are set."""

import math

import pytest
import torch
from torch import Tensor

from scob.algorithm.masks import flip_cells
from scob.data import views as module
from scob.data.views import Views
from scob.draws import seed_key, uniform


@pytest.fixture
def images() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    small = torch.randint(0, 256, (12, 3, 8, 8), generator=generator).float()
    return torch.nn.functional.interpolate(small, (32, 32), mode="bilinear").round().to(torch.uint8)


def pixels(views: Views, normalised: Tensor) -> Tensor:
    mean, std = torch.tensor(views.mean).view(1, 3, 1, 1), torch.tensor(views.std).view(1, 3, 1, 1)
    return normalised * std + mean


def test_weak_is_normalised_and_flipped(images: Tensor) -> None:
    views = Views(32)
    flip = torch.arange(12) % 2 == 0
    seen = pixels(views, views.weak(images, flip)) * 255
    torch.testing.assert_close(seen[1], images[1].float(), atol=1e-3, rtol=0)
    torch.testing.assert_close(seen[0], images[0].flip(-1).float(), atol=1e-3, rtol=0)


def test_inputs_are_left_alone(images: Tensor) -> None:
    before = images.clone()
    views, keys = Views(32), torch.arange(12)
    views.weak(images, views.flips(keys, "weak"))
    views.strong(images, views.flips(keys, "weak"), keys)
    views.crop(images, keys, "one")
    views.normalise(images)
    assert torch.equal(images, before)


def test_resize_only_when_sizes_differ(images: Tensor) -> None:
    views = Views(16)
    assert views.normalise(images).shape == (12, 3, 16, 16)
    flat = torch.full((1, 3, 40, 20), 77, dtype=torch.uint8)
    torch.testing.assert_close(pixels(views, views.normalise(flat)) * 255, torch.full((1, 3, 16, 16), 77.0))


def test_mask_goes_through_the_flip_of_its_image() -> None:
    views = Views(16)
    picture = torch.zeros((2, 3, 16, 16), dtype=torch.uint8)
    picture[:, :, :, :5] = 255
    mask = picture[:, 0] > 0
    flip = torch.tensor([True, False])
    seen = pixels(views, views.weak(picture, flip))[:, 0] > 0.5
    assert torch.equal(flip_cells(mask, flip), seen)


@pytest.mark.parametrize("kind", ["strong", "crop"])
def test_a_view_depends_on_seed_and_key_alone(images: Tensor, kind: str) -> None:
    keys = torch.arange(12) * 7919

    def view(views: Views, rows: Tensor, keys: Tensor = keys) -> Tensor:
        if kind == "crop":
            return views.crop(images[rows], keys[rows], "one")
        return views.strong(images[rows], views.flips(keys[rows], "strong"), keys[rows])

    everyone = torch.arange(12)
    together = view(Views(32, seed=3), everyone)
    torch.manual_seed(99)
    backwards = view(Views(32, seed=3), everyone.flip(0)).flip(0)
    torch.testing.assert_close(backwards, together, rtol=0, atol=1e-6)
    alone = torch.cat([view(Views(32, seed=3), everyone[i : i + 1]) for i in range(12)])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-5)
    assert not torch.allclose(view(Views(32, seed=4), everyone), together)
    assert not torch.allclose(view(Views(32, seed=3), everyone, keys + 1), together)


def test_draws_are_keyed_as_in_earlier_versions() -> None:
    """The 0 in the key belongs to it: without it, a resumed run would see other views."""
    views, keys = Views(16, seed=5), torch.arange(4)
    assert torch.equal(views.flips(keys, "clean"), uniform(keys, seed_key(5, 0, "clean flip"))[:, 0] < 0.5)


def test_views_leave_the_global_generator_alone(images: Tensor) -> None:
    state = torch.get_rng_state()
    views, keys = Views(32), torch.arange(12)
    views.strong(images, views.flips(keys, "weak"), keys)
    views.crop(images, keys, "one")
    assert torch.equal(torch.get_rng_state(), state)


def test_picking_rows_equals_the_whole_batch_with_where(images: Tensor) -> None:
    """The CPU computes only the rows that change, a GPU computes all and selects: the views must be the same."""
    views, keys = Views(32, seed=1), torch.arange(12)
    unit = images / 255.0
    picked = views._coloured(unit.clone(), keys, "strong", 0.5, pick=True)
    selected = views._coloured(unit.clone(), keys, "strong", 0.5, pick=False)
    assert not torch.equal(picked, unit)
    torch.testing.assert_close(selected, picked, atol=1e-6, rtol=0)


def test_shares_of_jitter_grey_and_blur() -> None:
    count = 3000
    flat = torch.randint(0, 256, (1, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images = flat.expand(count, -1, -1, -1)
    views, keys = Views(8), torch.arange(count)
    still = torch.zeros(count, dtype=torch.bool)
    seen = pixels(views, views.strong(images, still, keys))
    plain = images.float() / 255
    untouched = (seen - plain).abs().amax((1, 2, 3)) < 1e-5
    grey = (seen[:, 0] - seen[:, 1]).abs().amax((1, 2)) < 1e-5
    expected = (1 - module.JITTER_SHARE) * (1 - module.GREY_SHARE) * (1 - module.BLUR_SHARE)
    # A jitter may lose all saturation only at 0.2, so grey pixels come from the greyscale alone. The narrowest blurs
    # leave an image as it is: sigma below 0.15 or so, some 3 of 100 blurs.
    assert abs(float(untouched.float().mean()) - expected) < 0.035
    assert abs(float(grey.float().mean()) - module.GREY_SHARE) < 0.03


def test_jitter_stays_in_range(images: Tensor) -> None:
    many = images.repeat(20, 1, 1, 1)
    views, keys = Views(32), torch.arange(len(many))
    seen = pixels(views, views.strong(many, torch.zeros(len(many), dtype=torch.bool), keys))
    assert seen.min() > -1e-4
    assert seen.max() < 1 + 1e-4


def test_crop_shows_a_part_at_its_place() -> None:
    side = 64
    ramp = torch.linspace(0, 255, side).round().to(torch.uint8)
    picture = torch.stack([ramp[None].expand(side, -1), ramp[:, None].expand(-1, side), ramp[None].expand(side, -1)])
    count = 400
    views, keys = Views(side), torch.arange(count)
    draws = views._draw(keys, "one crop", 4)
    flip = views.flips(keys, "one")
    seen = views._cropped(picture[None].expand(count, -1, -1, -1) / 255.0, flip, draws)
    width = (seen[:, 0, 32].amax(1) - seen[:, 0, 32].amin(1)).clamp(min=1 / side)
    height = (seen[:, 1, :, 32].amax(1) - seen[:, 1, :, 32].amin(1)).clamp(min=1 / side)
    area = width * height
    assert area.min() > 0.06
    assert 0.45 < float(area.mean()) < 0.58  # uniform in [0.08, 1], a little less where a side is cut to the image
    aspect = torch.log(width / height)
    assert aspect.abs().max() < math.log(4 / 3) + 0.1
    rising = seen[:, 0, 32, -1] > seen[:, 0, 32, 0]
    assert torch.equal(rising, ~flip)


def test_streams_are_independent() -> None:
    views, keys = Views(16), torch.arange(4000)
    one, two = views.flips(keys, "one"), views.flips(keys, "two")
    assert abs(float(one.float().mean()) - 0.5) < 0.04
    assert abs(float((one == two).float().mean()) - 0.5) < 0.04


@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_tiny_sizes(size: int) -> None:
    views, keys = Views(size), torch.arange(30)
    images = torch.zeros((30, 3, size, size), dtype=torch.uint8)
    assert views.strong(images, views.flips(keys, "w"), keys).shape == (30, 3, size, size)


@pytest.mark.gpu
def test_cuda_draws_and_sees_as_the_cpu_does(images: Tensor) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    views, keys = Views(32, seed=2), torch.arange(12)
    flip = views.flips(keys, "weak")
    there = views.flips(keys.cuda(), "weak")
    assert torch.equal(there.cpu(), flip)
    far, far_keys = images.cuda(), keys.cuda()
    views.normalise(far)  # the constants travel once
    torch.cuda.set_sync_debug_mode("error")
    try:
        weak, strong = views.weak(far, there), views.strong(far, there, far_keys)
        crop = views.crop(far, far_keys, "one")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(weak.cpu(), views.weak(images, flip))
    torch.testing.assert_close(strong.cpu(), views.strong(images, flip, keys), atol=2e-3, rtol=1e-3)
    torch.testing.assert_close(crop.cpu(), views.crop(images, keys, "one"), atol=2e-2, rtol=1e-2)


def test_an_image_that_is_not_recoloured_has_the_same_strong_and_weak_view() -> None:
    images = torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    views, keys = Views(16, seed=3), torch.arange(64)
    flip = views.flips(keys, "strong")
    changed = views.recoloured(keys)
    strong, weak = views.strong(images, flip, keys), views.weak(images, flip)
    assert [not torch.equal(a, b) for a, b in zip(strong, weak, strict=True)] == changed.tolist()
    assert 20 < int(changed.sum()) < 50  # 55 of 100
