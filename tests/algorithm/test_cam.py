"""Eq. 2-3 against a loop over images, channels and cells."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from scob.algorithm.cam import (
    MapSettings,
    above_floor,
    activation_maps,
    activations,
    find_power,
    foreground,
    likeness,
    masks_of,
    spread,
)


class TwoStages(nn.Module):
    """A head whose logits depend on both maps in a non-linear way."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.third, self.fourth, self.last = nn.Conv2d(5, 8, 3), nn.Conv2d(7, 8, 3), nn.Linear(16, 4)

    def forward(self, third: Tensor, fourth: Tensor) -> Tensor:
        pooled = [torch.tanh(c(f)).mean((2, 3)) for c, f in ((self.third, third), (self.fourth, fourth))]
        return self.last(torch.cat(pooled, 1))


@pytest.fixture
def maps() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(6, 5, 6, 6, generator=draw), torch.randn(6, 7, 4, 4, generator=draw)


CHOSEN = torch.tensor([0, 3, -1, 1, 2, 3])


def one_at_a_time(head: TwoStages, maps: tuple[Tensor, Tensor], stage: int, kind: str) -> Tensor:
    """Eq. 2 for one image after another, one channel after another."""
    heats = []
    for row, c in enumerate(CHOSEN.tolist()):
        pair = [m[row : row + 1].clone().requires_grad_() for m in maps]
        f = pair[stage].detach()[0]
        heat = torch.zeros(f.shape[1:])
        if c >= 0:
            g = torch.autograd.grad(head(*pair)[0, c], pair[stage])[0][0]
            for k in range(len(f)):
                if kind == "layer":
                    heat += g[k].clamp(min=0) * f[k] / len(f)
                    continue
                if kind == "grad":
                    weight = sum(g[k].flatten().tolist()) / g[k].numel()
                else:
                    total, weight = f[k].sum(), 0.0
                    for slope in g[k].flatten():
                        below = 2 * slope**2 + total * slope**3
                        share = slope**2 / below if abs(below) > 1e-12 else slope**2
                        weight += float(share * max(slope, torch.tensor(0.0)))
                heat += weight * f[k] / len(f)
        heat = heat.clamp(min=0)
        heats.append(heat / heat.max() if heat.max() > 0 else heat)
    return torch.stack(heats)


@pytest.mark.parametrize("kind", ["grad", "grad++", "layer"])
def test_a_batch_equals_a_loop(maps: tuple[Tensor, Tensor], kind: str) -> None:
    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    batched = activation_maps(head(*features), features, CHOSEN, MapSettings(kind, "each"))
    for stage in (0, 1):
        assert torch.allclose(batched[stage], one_at_a_time(head, maps, stage, kind), atol=1e-4)
        assert (batched[stage][2] == 0).all()  # no label, no map
        assert batched[stage].amax() == 1


@pytest.mark.parametrize("source", ["each", "spread", "stage4"])
@pytest.mark.parametrize("whole_pass", [True, False])
def test_the_first_images_have_the_maps_they_have_in_the_batch(
    maps: tuple[Tensor, Tensor], source: str, whole_pass: bool
) -> None:
    """Whether the logits are some of those of a whole batch, or of a pass of its own."""
    head, settings = TwoStages(), MapSettings(source=source)
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    every = activation_maps(head(*features), features, CHOSEN, settings)
    logits = head(*features)[:4] if whole_pass else head(features[0][:4], features[1][:4])
    some = activation_maps(logits, features, CHOSEN[:4], settings)
    for stage in (0, 1):
        torch.testing.assert_close(some[stage], every[stage][:4], atol=1e-5, rtol=0)


def test_a_sharp_map_is_high_where_both_kinds_are(maps: tuple[Tensor, Tensor]) -> None:
    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    sharp = activation_maps(head(*features), features, CHOSEN, MapSettings("sharp", "each"))
    for stage in (0, 1):
        product = one_at_a_time(head, maps, stage, "grad") * one_at_a_time(head, maps, stage, "layer")
        peak = product.amax(dim=(1, 2), keepdim=True)
        assert torch.allclose(sharp[stage], (product / peak.clamp(min=1e-12)).sqrt(), atol=1e-3)


def naive_likeness(features: Tensor, share: float) -> Tensor:
    """Rows of one image's cells; the power by trying many, from the lowest."""
    cells = features.flatten(1).T - features.flatten(1).mean(1)
    count = len(cells)
    cosine = [[max(0.0, float(torch.cosine_similarity(a, b, dim=0))) for b in cells] for a in cells]
    for step in range(601):
        power = 2 ** (step / 100)
        powered = [[c**power for c in row] for row in cosine]
        heard = sum(sum(row) ** 2 / sum(w * w for w in row) for row in powered) / count
        if heard <= share * count:
            break
    return torch.tensor([[w / sum(row) for w in row] for row in powered])


def test_likeness_is_the_lowest_power_at_which_few_cells_are_heard(maps: tuple[Tensor, Tensor]) -> None:
    for share in (0.1, 0.3):
        found = likeness(maps[0], partial(find_power, share=share))
        assert torch.allclose(found.sum(dim=2), torch.ones(6, 36))
        for b in (0, 4):
            assert torch.allclose(found[b], naive_likeness(maps[0][b], share), atol=0.03)


def test_features_that_differ_little_count_as_much_as_those_that_differ_a_lot() -> None:
    torch.manual_seed(0)
    own, common = torch.randn(1, 16, 8, 8), torch.randn(1, 16, 8, 1)
    heard = [(1 / likeness(own + much * common).square().sum(dim=2)).mean() for much in (0.0, 1.0, 4.0)]
    assert all(0.8 * 0.05 * 64 < float(count) < 1.3 * 0.05 * 64 for count in heard), heard


def test_a_map_above_its_floor_begins_at_0_and_ends_at_1() -> None:
    heat = torch.tensor([[[0.6, 0.8], [0.7, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    assert above_floor(heat)[0].flatten().tolist() == pytest.approx([0.0, 0.5, 0.25, 1.0])
    assert above_floor(heat)[1].tolist() == [[0.0, 0.0], [0.0, 0.0]]  # the same everywhere: nowhere in particular


def test_spreading_is_a_repeated_mean(maps: tuple[Tensor, Tensor]) -> None:
    heat = torch.rand(6, 6, 6, generator=torch.Generator().manual_seed(1))
    found = spread(heat, likeness(maps[0]), 2)
    weights = likeness(maps[0])
    for b in range(6):
        now = weights[b] @ (weights[b] @ heat[b].flatten())
        assert torch.allclose(found[b].flatten(), now / now.max(), atol=1e-4)
    assert torch.allclose(spread(heat, likeness(maps[0]), 0), heat / heat.amax(dim=(1, 2), keepdim=True))


def test_spreading_fills_the_object_and_leaves_the_rest() -> None:
    """Two kinds of cells; the map has found one cell of the object, and by chance a little of the ground."""
    kind = torch.zeros(8, 8, dtype=torch.bool)
    kind[2:6, 2:7] = True
    torch.manual_seed(0)
    features = torch.where(kind, torch.tensor([3.0, 0.0])[:, None, None], torch.tensor([0.0, 3.0])[:, None, None])
    features = features + 0.1 * torch.rand(2, 8, 8)
    heat = torch.zeros(1, 8, 8)
    heat[0, 3, 3], heat[0, 0, 0] = 1.0, 0.2
    assert ((spread(heat, likeness(features[None]), 4)[0] >= 0.5) == kind).all()


def test_cells_that_are_all_alike_keep_their_map() -> None:
    heat = torch.rand(2, 3, 3)
    equal = spread(heat, likeness(torch.ones(2, 4, 3, 3)), 3)
    assert torch.allclose(equal, heat / heat.amax(dim=(1, 2), keepdim=True))
    assert (spread(torch.zeros(2, 3, 3), likeness(torch.rand(2, 4, 3, 3)), 3) == 0).all()


def test_both_stages_take_the_spread_map_of_stage_4(maps: tuple[Tensor, Tensor]) -> None:
    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    third, fourth = activation_maps(head(*features), features, CHOSEN, MapSettings(steps=3))
    _, own = activation_maps(head(*features), features, CHOSEN, MapSettings(source="each"))
    enlarged = nn.functional.interpolate(own[:, None], size=(6, 6), mode="bilinear")[:, 0]
    assert torch.allclose(third, spread(enlarged, likeness(maps[0]), 3), atol=1e-5)
    pooled = nn.functional.adaptive_avg_pool2d(third[:, None], (4, 4))[:, 0]
    assert torch.allclose(fourth, pooled / pooled.amax(dim=(1, 2), keepdim=True).clamp(min=1e-9), atol=1e-5)


def test_a_map_of_stage_4_passes_only_its_half_of_the_head(maps: tuple[Tensor, Tensor]) -> None:
    class Counted(torch.autograd.Function):
        backwards = 0

        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            Counted.backwards += 1
            return gradient

    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    for source, passes in (("spread", 0), ("stage4", 0), ("each", 1)):
        Counted.backwards = 0
        activation_maps(head(Counted.apply(features[0]), features[1]), features, CHOSEN, MapSettings(source=source))
        assert Counted.backwards == passes


def test_only_the_features_are_differentiated(maps: tuple[Tensor, Tensor]) -> None:
    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    logits = head(*features)
    activation_maps(logits, features, CHOSEN)
    assert all(p.grad is None for p in head.parameters())
    logits.sum().backward()  # the graph is still there for the losses


def test_one_map_for_both_stages(maps: tuple[Tensor, Tensor]) -> None:
    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    third, fourth = activation_maps(head(*features), features, CHOSEN, MapSettings(source="stage4"))
    own, _ = activation_maps(head(*features), features, CHOSEN, MapSettings(source="each"))
    assert third.shape == own.shape
    assert not torch.equal(third, own)
    assert torch.equal(third, nn.functional.interpolate(fourth[:, None], size=(6, 6), mode="bilinear")[:, 0])


@pytest.mark.parametrize("source", ["each", "spread"])
def test_a_stage_the_head_does_not_read_borrows_the_other(maps: tuple[Tensor, Tensor], source: str) -> None:
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    logits = features[1].mean((2, 3))[:, :4]
    third, _ = activation_maps(logits, features, CHOSEN, MapSettings(source=source))
    assert third.shape == (6, 6, 6)
    assert third.amax() > 0


def test_a_saturated_probability_still_has_a_map() -> None:
    features = (torch.rand(1, 2, 4, 4).requires_grad_(), torch.rand(1, 2, 4, 4).requires_grad_())
    logits = (features[0].sum((1, 2, 3)) + features[1].sum((1, 2, 3)))[:, None] * 100
    assert logits.sigmoid().item() == 1.0  # its gradient is 0
    third, fourth = activation_maps(logits, features, torch.tensor([0]))
    assert third.amax() == 1
    assert fourth.amax() == 1


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_the_mask_is_the_windows_mean_at_or_above_the_threshold(window: int) -> None:
    torch.manual_seed(0)
    heat = torch.rand(2, 5, 5)
    mask = foreground(heat, window, 0.5)
    assert mask.shape == heat.shape
    for b in range(2):
        for i in range(5):
            for j in range(5):
                half = window // 2
                top = i + half + window % 2  # an even window has no middle: it reaches one cell further back
                patch = heat[b, max(0, i - half) : top, max(0, j - half) : j + half + window % 2]
                assert mask[b, i, j] == bool(patch.mean() >= 0.5)


def test_a_map_of_zeros_keeps_nothing_at_any_threshold() -> None:
    assert not foreground(torch.zeros(1, 3, 3), 1, 0.0).any()
    masks = masks_of((torch.zeros(1, 6, 6), torch.ones(1, 3, 3)), MapSettings(windows=(3, 1)))
    assert [m.sum().item() for m in masks] == [0, 9]


def test_an_activation_is_divided_by_its_own_maximum() -> None:
    features = torch.rand(3, 4, 5, 5)
    small = activations(features, torch.full_like(features, 1e-6))
    assert torch.allclose(small, activations(features, torch.ones_like(features)), atol=1e-6)
