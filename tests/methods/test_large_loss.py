"""The three large-loss methods, worked out by hand."""

from types import SimpleNamespace

import pytest
import torch

from scob.methods.large_loss import largest
from support.worked_example import LOGITS, OBSERVED, bare, entries, log, value


def test_largest_takes_a_number_of_the_eligible() -> None:
    cost = torch.tensor([[1.0, 5.0, 3.0], [9.0, 4.0, 2.0]])
    eligible = torch.tensor([[True, True, True], [False, True, True]])
    assert not largest(cost, eligible, torch.tensor(0.0)).any()
    assert largest(cost, eligible, torch.tensor(2.0)).tolist() == [[False, True, False], [False, True, False]]
    assert largest(cost, eligible, torch.tensor(1.05)).sum() == 2, "1.05 is rounded up"
    assert largest(cost, eligible, 5 * torch.tensor(0.6)).sum() == 3, "exactly three stay three"
    assert torch.equal(largest(cost, eligible, torch.tensor(6.0)), eligible), "never more than there are"


@pytest.mark.parametrize("name", ["ll-r", "ll-ct", "ll-cp"])
def test_the_share_is_one_of_all_labels_known_or_not(name: str) -> None:
    """Two images with three classes, three labels unknown: a third is two of the three unknown ones, not one."""
    method, batch = bare(name, delta=100 / 3), SimpleNamespace(weight=torch.tensor([0.5, 0.5]))
    assert method.suspected(LOGITS, OBSERVED == 0, batch, 1).sum() == 2
    batch.weight = torch.tensor([0.0, 1.0])  # the first image is padding: a third of three labels
    assert method.suspected(LOGITS, OBSERVED == 0, batch, 1).nonzero().tolist() == [[1, 1]]


def test_a_small_batch_still_corrects() -> None:
    """0.2 percent of six labels is less than one, but one is still corrected: that of p = 0.6."""
    method = bare("ll-cp")
    method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    value(method, 1)
    assert method.corrected.nonzero().tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("name", "suspect"), [("ll-r", 0.0), ("ll-ct", log(0.6)), ("ll-cp", log(0.6))], ids=["ll-r", "ll-ct", "ll-cp"]
)
def test_large_losses(name: str, suspect: float) -> None:
    """The largest of three unknown losses, that of p = 0.6, is rejected or corrected; not in the first epoch."""
    method = bare(name, delta=16.0)
    if name == "ll-cp":
        method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    assert value(method, 0) == pytest.approx(value(bare("an")), abs=1e-6)
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, suspect, 0.1054)
    assert value(method, 1) == pytest.approx(by_hand, abs=1e-4)


def test_permanent_correction_stays() -> None:
    method = bare("ll-cp", delta=16.0)
    method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    value(method, 1)
    method.settings.delta = 0.0
    low = torch.full((2, 3), -4.0)
    value(method, 2, logits=low)
    assert method.corrected.nonzero().tolist() == [[1, 1]]
