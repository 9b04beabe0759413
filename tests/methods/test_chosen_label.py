"""The likelihood of the chosen label against a sum over everything that an image may show."""

import itertools
import math

import pytest
import torch

from scob.algorithm.batch_share import BatchShare
from scob.methods.chosen_label import l_chosen, log_chosen, quadrature


def chosen(p: list[float], c: int) -> float:
    """P(c chosen): each set of classes with its probability, and one of its members drawn."""
    total = 0.0
    for shown in itertools.product((False, True), repeat=len(p)):
        if shown[c]:
            total += math.prod(q if s else 1 - q for q, s in zip(p, shown, strict=True)) / sum(shown)
    return total


def by_counting(p: torch.Tensor, c: int) -> float:
    """The same for many classes: how likely each number of other classes is, one class after the other."""
    counts = torch.zeros(len(p), dtype=torch.float64)
    counts[0] = 1.0
    for j, q in enumerate(p.tolist()):
        if j != c:
            counts = counts * (1 - q) + counts.roll(1) * q
    return float(p[c] * (counts / torch.arange(1, len(p) + 1)).sum())


def test_the_likelihood_sums_over_everything_the_image_may_show() -> None:
    p = [0.9, 0.2, 0.6, 0.05, 0.99]
    ours = log_chosen(torch.logit(torch.tensor([p])), *quadrature(torch.device("cpu"))).exp()
    assert ours[0].tolist() == pytest.approx([chosen(p, c) for c in range(5)], rel=1e-5)


@pytest.mark.parametrize(("classes", "mean"), [(20, 1.5), (80, 3.0), (80, 20.0), (1000, 3.0), (1000, 10.0)])
def test_sixteen_nodes_are_enough(classes: int, mean: float) -> None:
    draw = torch.Generator().manual_seed(classes)
    logits = torch.logit(torch.rand(classes, generator=draw, dtype=torch.float64) ** (classes / mean - 1))
    p = logits.sigmoid()
    ours = log_chosen(logits[None].float(), *quadrature(torch.device("cpu"))).exp()[0]
    some = p.argsort(descending=True)[:: max(1, classes // 8)].tolist()
    assert [float(ours[c]) for c in some] == pytest.approx([by_counting(p, c) for c in some], rel=2e-3)


def test_the_pull_on_an_unobserved_class_is_bounded() -> None:
    """Unlike -log(1 - p), whose gradient in p grows without end, for a class that is almost certainly there."""
    logits = torch.tensor([[3.0, 9.0, -2.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(-log_chosen(logits, *quadrature(torch.device("cpu")))[0, 0], logits)
    assert gradient[0, 0] < 0 < gradient[0, 2] and 0 < gradient[0, 1] < 1e-3


def test_the_loss_is_a_mean_over_images_and_their_labels() -> None:
    likelihood = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0], [-7.0, -8.0, -9.0]])
    observed = torch.tensor([[1, 0, 0], [1, -1, 1], [0, 0, 0]])
    expected = (1.0 + (4.0 + 6.0) / 2 + 0.0) / 3 / 3
    assert float(l_chosen(likelihood, observed, BatchShare())) == pytest.approx(expected)
