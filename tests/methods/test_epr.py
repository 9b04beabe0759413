"""Expected positive regularisation, worked out by hand."""

import pytest

from support.worked_example import bare, entries, value


def test_expected_positives() -> None:
    """k-hat is (1.6 + 1.6) / 2 = 1.6: ((1.6 - 1.5) / 3)^2 beside the observed labels' cross-entropy."""
    by_hand = entries(0.2231, 0, 0, 0.1054, 0, 0.1054) + (0.1 / 3) ** 2
    assert value(bare("epr")) == pytest.approx(by_hand, abs=1e-4)
