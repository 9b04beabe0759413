"""AEVLP: GR where there is no pseudo-positive, EPR, and pseudo-positives by hand."""

import math
from typing import Any

import pytest
import torch

from support.worked_example import LOGITS, bare, value

GR = {"q1": 0.0, "q2": 0.01, "q3": 1.0, "w": (0.0, 10.0), "b": (-2.0, -8.0)}


def aevlp(epoch: int, pseudo: torch.Tensor, **settings: Any) -> Any:
    method = bare("aevlp", epochs=10, **settings)
    method.register_buffer("schedule", torch.zeros(4))
    method.register_buffer("pseudo_positive", pseudo)
    method.begin_epoch(epoch)
    return method


@pytest.mark.parametrize("epoch", [0, 7])
def test_without_pseudo_positives_it_is_gr_and_the_expected_number_of_positives(epoch: int) -> None:
    none = torch.zeros(3, 3, dtype=torch.bool)
    gr = value(bare("gr", epochs=10, **GR), epoch)
    assert value(aevlp(epoch, none, expected=0.0, **GR), epoch) == pytest.approx(gr, abs=1e-6)
    predicted = float(LOGITS.sigmoid().sum(dim=1).mean())
    expected = gr + 0.3 * ((predicted - 1.5) / 3) ** 2
    assert value(aevlp(epoch, none, expected=0.3, **GR), epoch) == pytest.approx(expected, abs=1e-6)


def test_a_pseudo_positive_costs_the_present_part() -> None:
    none = torch.zeros(3, 3, dtype=torch.bool)
    one = none.clone()
    one[0, 1] = True
    difference = value(aevlp(3, one, expected=0.0), 3) - value(aevlp(3, none, expected=0.0), 3)
    k = 1 / (1 + math.exp(-(0.6 * 0.3 - 2)))
    mu, sigma = 0.5 + 0.3 * 4 / 10, 2 - 1.5 * 4 / 10
    v = math.exp(-((0.3 - mu) ** 2) / (2 * sigma**2))
    present = (1 - 0.3**0.01) / 0.01
    assert difference == pytest.approx(v * (1 - k) * (present - 0.3) / 6, abs=1e-5)


def test_a_score_at_the_limit_is_believed() -> None:
    assert bare("aevlp").believed(torch.tensor([0.5, 0.49])).tolist() == [True, False]
