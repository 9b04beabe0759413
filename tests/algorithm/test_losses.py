"""Every loss against a loop over plain numbers, at the edges, and against values computed by hand."""

import math

import pytest
import torch
from torch import Tensor

from scob.algorithm import losses
from scob.algorithm.batch_share import BatchShare
from scob.config import ModelSettings
from scob.model.heads import build_head
from scob.model.network import Projector

E = losses.EPSILON


def log(p: float) -> float:
    return math.log(min(max(p, E), 1.0))


def naive_bce(p: list[list[float]], q: list[list[float]]) -> float:
    rows = [
        -sum(b * log(a) + (1 - b) * log(1 - a) for a, b in zip(x, y, strict=True)) / len(x)
        for x, y in zip(p, q, strict=True)
    ]
    return sum(rows) / len(rows)


def naive_observed(p: list[list[float]], z: list[list[int]]) -> float:
    rows = [
        -sum(log(a) if b == 1 else log(1 - a) if b == -1 else 0.0 for a, b in zip(x, y, strict=True)) / len(x)
        for x, y in zip(p, z, strict=True)
    ]
    return sum(rows) / len(rows)


def naive_sp(p: Tensor, estimate: Tensor, z: Tensor, k: float) -> float:
    k_hat = sum(sum(row) for row in p.tolist()) / len(p)
    constraint = ((k_hat - k) / p.shape[1]) ** 2
    return naive_bce(p.tolist(), estimate.tolist()) + naive_observed(p.tolist(), z.tolist()) + constraint


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    p, y = torch.rand(5, 7, generator=draw), torch.rand(5, 7, generator=draw)
    z = torch.randint(-1, 2, (5, 7), generator=draw, dtype=torch.int8)
    return p, y, z


def test_bce(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    p, y, _ = batch
    assert losses.bce(p, y).item() == pytest.approx(naive_bce(p.tolist(), y.tolist()), rel=1e-5)


def test_only_observed_labels_count(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    p, _, z = batch
    assert losses.bce_observed(p, z).item() == pytest.approx(naive_observed(p.tolist(), z.tolist()), rel=1e-5)
    moved = torch.where(z == 0, 1 - p, p)
    assert losses.bce_observed(moved, z) == losses.bce_observed(p, z)


def test_l_sp_and_l_class(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    p, y, z = batch
    assert losses.l_sp(p, y, z, 1.5).item() == pytest.approx(naive_sp(p, y, z, 1.5), rel=1e-5)
    both = (naive_sp(p, y, z, 1.5) + naive_sp(y, p, z, 1.5)) / 2
    assert losses.l_class(p, y, z, 1.5).item() == pytest.approx(both, rel=1e-5)


def test_each_side_of_l_class_is_a_constant_for_the_other(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    p, y, z = (batch[0].requires_grad_(), batch[1].requires_grad_(), batch[2])
    losses.l_sp(p, y, z, 1.5).backward()
    assert p.grad is not None
    assert y.grad is None


def test_l_sp_by_hand() -> None:
    half = torch.full((3, 20), 0.5)
    one = torch.zeros(3, 20, dtype=torch.int8)
    one[:, 4] = 1
    assert losses.l_sp(half, half, one, 1.5).item() == pytest.approx(0.908429, abs=1e-6)


def test_eq_8_by_hand() -> None:
    query = key = torch.eye(20)[:1]
    allowed = torch.ones(1, 19, dtype=torch.bool)
    for scale, value in (("paper", 0.010391), ("root", 0.046468), ("none", 0.207813)):
        divisor = losses.contrast_divisor(scale, allowed, 20)
        loss = 0.1 * losses.l_cont(query, key, torch.eye(20)[1:], allowed, 1.0, divisor)
        assert loss.item() == pytest.approx(value, abs=1e-5)


def naive_cont(query: Tensor, key: Tensor, negatives: Tensor, allowed: Tensor, tau: float, scale: str) -> float:
    total = 0.0
    for q, k, row in zip(query, key, allowed, strict=True):
        positive = math.exp(float(q @ k) / tau)
        chosen = [math.exp(float(q @ n) / tau) for n, use in zip(negatives, row, strict=True) if use]
        divisor = {"paper": 1 + len(chosen), "root": 12**0.5, "none": 1}[scale]
        total += -math.log(positive / (positive + sum(chosen))) / divisor
    return total / len(query)


@pytest.mark.parametrize("scale", ["paper", "root", "none"])
def test_eq_8(scale: str) -> None:
    torch.manual_seed(0)
    query, key, negatives = (torch.nn.functional.normalize(torch.randn(n, 6), dim=1) for n in (4, 4, 9))
    allowed = torch.rand(4, 9) < 0.5
    allowed[0] = False
    divisor = losses.contrast_divisor(scale, allowed, 12)
    loss = losses.l_cont(query, key, negatives, allowed, 0.3, divisor).item()
    assert loss == pytest.approx(naive_cont(query, key, negatives, allowed, 0.3, scale), rel=1e-5)
    each = negatives[None].expand(4, -1, -1)
    assert losses.l_cont(query, key, each, allowed, 0.3, divisor).item() == pytest.approx(loss, rel=1e-6)


def test_what_is_not_allowed_is_not_in_the_denominator() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(3, 4), torch.randn(3, 4)
    few = torch.randn(5, 4)
    allowed = torch.ones(3, 5, dtype=torch.bool)
    more = torch.cat((few, torch.full((2, 4), 1e4)))
    without = torch.cat((allowed, torch.zeros(3, 2, dtype=torch.bool)), dim=1)
    for scale in ("paper", "root", "none"):
        a = losses.l_cont(query, key, few, allowed, 1.0, losses.contrast_divisor(scale, allowed, 6))
        b = losses.l_cont(query, key, more, without, 1.0, losses.contrast_divisor(scale, without, 6))
        assert torch.equal(a, b)


def test_without_negatives_the_loss_is_zero_and_its_gradient_finite() -> None:
    query = torch.randn(2, 4, requires_grad=True)
    loss = losses.l_cont(query, torch.randn(2, 4), torch.zeros(3, 4), torch.zeros(2, 3, dtype=torch.bool), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert query.grad is not None
    assert torch.isfinite(query.grad).all()


def test_probabilities_of_exactly_0_and_1_are_finite() -> None:
    p = torch.tensor([[0.0, 1.0, 0.0, 1.0]], requires_grad=True)
    y = torch.tensor([[1.0, 0.0, 0.0, 1.0]], requires_grad=True)
    z = torch.tensor([[1, -1, 0, 0]], dtype=torch.int8)
    for loss in (losses.bce(p, y), losses.bce_observed(p, z), losses.l_sp(p, y, z, 1.5), losses.l_class(p, y, z, 1.5)):
        assert math.isfinite(loss.item())
        gradients = torch.autograd.grad(loss, (p, y), allow_unused=True, retain_graph=True)
        assert all(torch.isfinite(g).all() for g in gradients if g is not None)


def test_weights_make_two_shares_add_up_to_the_whole(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    p, y, z = batch
    fifth = torch.full((5,), 0.2)
    for function, other in ((losses.bce, y), (losses.bce_observed, z)):
        parts = function(p[:2], other[:2], fifth[:2]) + function(p[2:], other[2:], fifth[2:])
        assert parts.item() == pytest.approx(function(p, other).item(), rel=1e-5)
    padded = torch.cat((p, torch.rand(2, 7)))
    weight = torch.cat((fifth, torch.zeros(2)))
    assert losses.expected_positives(padded, BatchShare(weight)).item() == pytest.approx(
        losses.expected_positives(p).item(), rel=1e-5
    )


def gradient_ratio(classes: int, batch: int, t: int, scale: str) -> float:
    """The norm of the head's gradient from Eq. 8 over that from Eq. 12, with new weights and a full tree."""
    settings = ModelSettings(width=64, heads=4, feedforward=128, projection=64, dropout=0)
    ratios = []
    for seed in range(3):
        torch.manual_seed(seed)
        head = build_head((32, 64), ((6, 6), (3, 3)), settings)
        classifier, projector = torch.nn.Linear(head.dimension, classes), Projector(head.dimension, 64, "map")
        weights = list(head.parameters())

        def embedded(images: int, head: torch.nn.Module = head) -> Tensor:
            return head((torch.randn(images, 32, 6, 6).relu(), torch.randn(images, 64, 3, 3).relu()))

        chosen = torch.randint(classes, (batch,))
        observed = torch.nn.functional.one_hot(chosen, classes)
        estimate = torch.where(observed == 1, 0.995, 0.2 + 0.6 * torch.rand(batch, classes))
        cells = embedded(batch)
        l_class = losses.l_class(classifier(cells).sigmoid(), estimate, observed, 3.0)
        with torch.no_grad():
            key, nodes = projector.key(embedded(batch)), projector.key(embedded(classes * t))
        allowed = chosen[:, None] != torch.arange(classes).repeat_interleave(t)[None]
        divisor = losses.contrast_divisor(scale, allowed, classes)
        l_cont = losses.l_cont(projector.query(cells), key, nodes, allowed, 0.2, divisor)
        norms = [
            torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights, retain_graph=True)]).norm()
            for loss in (l_cont, l_class)
        ]
        ratios.append(float(norms[0] / norms[1]))
    return sum(ratios) / len(ratios)


def test_the_weight_of_the_contrast_does_not_grow_with_the_classes() -> None:
    """For 16 to 1,000 classes; undivided, it does. Nor does it depend much on the batch or on t."""
    few = gradient_ratio(16, 8, 1, "root")
    ratios = {classes: gradient_ratio(classes, 8, 1, "root") / few for classes in (20, 80, 312, 1000)}
    assert all(0.25 < ratio <= 1.1 for ratio in ratios.values()), ratios
    assert gradient_ratio(1000, 8, 1, "none") > 2 * gradient_ratio(16, 8, 1, "none")
    assert gradient_ratio(1000, 8, 1, "paper") < 0.25 * gradient_ratio(16, 8, 1, "paper")  # as printed, it vanishes
    usual = gradient_ratio(80, 8, 1, "root")
    for batch, t in ((8, 4), (32, 1)):
        assert 0.5 < gradient_ratio(80, batch, t, "root") / usual < 2
    assert gradient_ratio(80, 8, 4, "paper") < 0.5 * gradient_ratio(80, 8, 1, "paper")  # and four nodes quarter it
