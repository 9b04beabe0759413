"""Entropy maximisation, worked out by hand."""

import pytest

from support.worked_example import bare, entries, entropy, value


def test_entropy_maximisation() -> None:
    by_hand = entries(0.2231, -0.2 * entropy(0.3), -0.2 * entropy(0.5), 0.1054, -0.2 * entropy(0.6), 0.1054)
    assert value(bare("em")) == pytest.approx(by_hand, abs=1e-4)
