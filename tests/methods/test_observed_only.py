"""BCE over observed labels, worked out by hand."""

import pytest

from support.worked_example import bare, entries, value


def test_observed_only() -> None:
    assert value(bare("observed-only")) == pytest.approx(entries(0.2231, 0, 0, 0.1054, 0, 0.1054), abs=1e-4)
