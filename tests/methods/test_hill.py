"""The Hill loss, worked out by hand."""

import pytest

from support.worked_example import bare, entries, focal_margin, value


def test_hill() -> None:
    """Negatives: (1.5 - p) p^2."""
    by_hand = entries(focal_margin(0.8), 1.2 * 0.09, 1.0 * 0.25, 1.4 * 0.01, 0.9 * 0.36, focal_margin(0.9))
    assert value(bare("hill")) == pytest.approx(by_hand, abs=1e-4)
