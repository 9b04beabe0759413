"""Label smoothing, worked out by hand."""

import pytest

from support.worked_example import bare, entries, value


def test_label_smoothing() -> None:
    """0.95 of the right side and 0.05 of the other."""
    by_hand = entries(
        0.95 * 0.2231 + 0.05 * 1.6094, 0.95 * 0.3567 + 0.05 * 1.2040, 0.6931,
        0.95 * 0.1054 + 0.05 * 2.3026, 0.95 * 0.9163 + 0.05 * 0.5108, 0.95 * 0.1054 + 0.05 * 2.3026,
    )  # fmt: skip
    assert value(bare("an-ls")) == pytest.approx(by_hand, abs=1e-4)
