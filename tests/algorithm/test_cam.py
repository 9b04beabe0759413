"""Eq. 2-3 against a loop over images, channels and cells."""

import pytest
import torch
from torch import Tensor, nn

from scob.algorithm.cam import activation_maps, activations, foreground, masks_of


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


@pytest.mark.parametrize("kind", ["grad", "grad++"])
def test_a_batch_equals_a_loop(maps: tuple[Tensor, Tensor], kind: str) -> None:
    head = TwoStages()
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    batched = activation_maps(head(*features), features, CHOSEN, kind)
    for stage in (0, 1):
        assert torch.allclose(batched[stage], one_at_a_time(head, maps, stage, kind), atol=1e-4)
        assert (batched[stage][2] == 0).all()  # no label, no map
        assert batched[stage].amax() == 1


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
    third, fourth = activation_maps(head(*features), features, CHOSEN, source="stage4")
    own, _ = activation_maps(head(*features), features, CHOSEN)
    assert third.shape == own.shape
    assert not torch.equal(third, own)
    assert torch.equal(third, nn.functional.interpolate(fourth[:, None], size=(6, 6), mode="bilinear")[:, 0])


def test_a_stage_the_head_does_not_read_borrows_the_other(maps: tuple[Tensor, Tensor]) -> None:
    features = (maps[0].clone().requires_grad_(), maps[1].clone().requires_grad_())
    logits = features[1].mean((2, 3))[:, :4]
    third, _ = activation_maps(logits, features, CHOSEN)
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
    masks = masks_of((torch.zeros(1, 6, 6), torch.ones(1, 3, 3)), (3, 1), 0.5)
    assert [m.sum().item() for m in masks] == [0, 9]


def test_an_activation_is_divided_by_its_own_maximum() -> None:
    features = torch.rand(3, 4, 5, 5)
    small = activations(features, torch.full_like(features, 1e-6))
    assert torch.allclose(small, activations(features, torch.ones_like(features)), atol=1e-6)
