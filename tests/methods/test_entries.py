"""The costs of single entries against plain logarithms."""

import math

import pytest
import torch

from scob.algorithm.batch_share import BatchShare
from scob.methods.entries import absent_cost, over_images, over_known, present_cost


@pytest.mark.parametrize("p", [0.01, 0.5, 0.97])
def test_the_cost_of_an_entry_is_its_logarithm(p: float) -> None:
    logit = torch.logit(torch.tensor([[p]], dtype=torch.float64))
    assert present_cost(logit).item() == pytest.approx(-math.log(p))
    assert absent_cost(logit).item() == pytest.approx(-math.log(1 - p))


def test_extreme_logits_have_finite_costs() -> None:
    extreme = torch.tensor([[-1000.0, 1000.0]])
    assert present_cost(extreme).tolist() == [[1000, 0]]
    assert absent_cost(extreme).tolist() == [[0, 1000]]


def test_images_are_weighted_and_classes_averaged() -> None:
    """Padding (weight 0) does not count."""
    entries, weight = torch.tensor([[1.0, 3.0], [5.0, 7.0], [99.0, 99.0]]), torch.tensor([0.25, 0.75, 0.0])
    assert over_images(entries, weight).item() == pytest.approx(0.25 * 2 + 0.75 * 6)


def test_a_mean_over_known_entries_counts_only_those() -> None:
    entries = torch.tensor([[1.0, 3.0], [5.0, 99.0]])
    known = torch.tensor([[True, True], [True, False]])
    assert over_known(entries, known, BatchShare()).item() == pytest.approx(3)
    assert over_known(entries, ~known & False, BatchShare()).item() == 0
