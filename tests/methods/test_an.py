"""Assume negative, worked out by hand."""

import pytest

from support.worked_example import bare, entries, value


def test_assume_negative() -> None:
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, 0.9163, 0.1054)
    assert value(bare("an")) == pytest.approx(by_hand, abs=1e-4)
