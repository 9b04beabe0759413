"""Weak assume negative, worked out by hand."""

import pytest

from support.worked_example import bare, entries, value


def test_weak_assume_negative_halves_unknown_labels_of_three_classes() -> None:
    by_hand = entries(0.2231, 0.3567 / 2, 0.6931 / 2, 0.1054, 0.9163 / 2, 0.1054)
    assert value(bare("wan")) == pytest.approx(by_hand, abs=1e-4)
