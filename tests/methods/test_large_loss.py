"""The three large-loss methods, worked out by hand."""

import pytest
import torch

from scob.methods.large_loss import largest
from support.worked_example import bare, entries, log, value


def test_largest_takes_the_share_of_the_eligible() -> None:
    cost = torch.tensor([[1.0, 5.0, 3.0], [9.0, 4.0, 2.0]])
    eligible = torch.tensor([[True, True, True], [False, True, True]])
    assert not largest(cost, eligible, 0.0).any()
    assert largest(cost, eligible, 0.4).tolist() == [[False, True, False], [False, True, False]]
    assert largest(cost, eligible, 0.21).sum() == 2, "1.05 is rounded up"
    assert largest(cost, eligible, 0.6).sum() == 3, "exactly three stay three"


def test_a_small_batch_still_corrects() -> None:
    """0.2 percent of three unknown labels is less than one, but one is still corrected: that of p = 0.6."""
    method = bare("ll-cp")
    method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    value(method, 1)
    assert method.corrected.nonzero().tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("name", "suspect"), [("ll-r", 0.0), ("ll-ct", log(0.6)), ("ll-cp", log(0.6))], ids=["ll-r", "ll-ct", "ll-cp"]
)
def test_large_losses(name: str, suspect: float) -> None:
    """The largest of three unknown losses, that of p = 0.6, is rejected or corrected; not in the first epoch."""
    method = bare(name, delta=33.0)
    if name == "ll-cp":
        method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    assert value(method, 0) == pytest.approx(value(bare("an")), abs=1e-6)
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, suspect, 0.1054)
    assert value(method, 1) == pytest.approx(by_hand, abs=1e-4)


def test_permanent_correction_stays() -> None:
    method = bare("ll-cp", delta=33.0)
    method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    value(method, 1)
    method.settings.delta = 0.0
    low = torch.full((2, 3), -4.0)
    value(method, 2, logits=low)
    assert method.corrected.nonzero().tolist() == [[1, 1]]
