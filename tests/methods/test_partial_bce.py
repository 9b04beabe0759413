"""Partial BCE, worked out by hand."""

import pytest
import torch

from support.worked_example import bare, entries, value


def test_partial_bce() -> None:
    """One known label of three: g(1/3) = 5.45 - 4.45 / 3; two of three: 5.45 - 4.45 * 2 / 3."""
    one, two = 5.45 - 4.45 / 3, 5.45 - 4.45 * 2 / 3
    by_hand = entries(one * 0.2231, 0, 0, two * 0.1054, 0, two * 0.1054)
    assert value(bare("partial-bce")) == pytest.approx(by_hand, abs=1e-4)


def test_partial_bce_of_all_labels_is_bce() -> None:
    labels = torch.tensor([[1, -1, -1], [-1, -1, 1]], dtype=torch.int8)
    assert value(bare("partial-bce"), observed=labels) == pytest.approx(value(bare("an")), abs=1e-6)
