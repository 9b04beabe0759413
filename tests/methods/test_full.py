"""BCE with all labels, worked out by hand."""

import pytest
import torch

from support.worked_example import bare, entries, value


def test_full_labels() -> None:
    full = torch.tensor([[1, -1, 1], [-1, -1, 1]], dtype=torch.int8)
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, 0.9163, 0.1054)
    assert value(bare("full"), observed=full) == pytest.approx(by_hand, abs=1e-4)
