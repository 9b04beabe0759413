"""Logits that are kept from one moment of the training to its end."""

from pathlib import Path

import pytest
import torch

from scob.algorithm.kept_logits import KeptLogits
from scob.model.row_tables import RowStorage

CPU = torch.device("cpu")


@pytest.mark.parametrize("place", ["device", "host", "disk"])
def test_the_mean_of_both_logits(place: str, tmp_path: Path) -> None:
    kept = KeptLogits(2, 3, CPU, RowStorage(place, tmp_path))
    final = torch.tensor([[0.0, 1.0, -1.0], [2.0, 0.0, 4.0]])
    assert kept.averaged(final) is final  # nothing was kept
    early = torch.tensor([[1.0, 1.0, 3.0], [-2.0, 0.5, 0.0]])
    kept.keep(early.sigmoid())
    assert torch.allclose(kept.averaged(final), (early + final) / 2, atol=2e-3)


def test_probabilities_of_0_and_1_have_finite_logits() -> None:
    kept = KeptLogits(1, 2, CPU)
    kept.keep(torch.tensor([[0.0, 1.0]]))
    low, high = kept.averaged(torch.zeros(1, 2))[0].tolist()
    assert low == pytest.approx(-high, abs=0.02)
    assert 6 < high < 8


def test_a_state_holds_what_was_kept_and_one_from_before_there_was_any_holds_nothing() -> None:
    kept, other, older = (KeptLogits(1, 2, CPU) for _ in range(3))
    kept.keep(torch.tensor([[0.2, 0.9]]))
    other.load_state_dict(kept.state_dict())
    older.load_state_dict({}, strict=False)
    logits = torch.ones(1, 2)
    assert torch.equal(other.averaged(logits), kept.averaged(logits))
    assert older.averaged(logits) is logits
