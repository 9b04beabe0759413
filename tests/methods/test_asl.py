"""The asymmetric loss, worked out by hand."""

import pytest
import torch

from support.worked_example import OBSERVED, bare, entries, log, value


def test_asymmetric_loss() -> None:
    """Negatives at p - 0.05: 0.25, 0.45, 0.05, 0.55, to the fourth power."""
    by_hand = entries(
        0.2231, 0.25**4 * log(0.75), 0.45**4 * log(0.55), 0.05**4 * log(0.95), 0.55**4 * log(0.45), 0.1054
    )
    assert value(bare("asl")) == pytest.approx(by_hand, abs=1e-4)


def test_asymmetric_loss_drops_easy_negatives() -> None:
    easy = torch.logit(torch.tensor([[0.5, 0.04, 0.01]]))
    assert value(bare("asl"), observed=OBSERVED[:1], logits=easy) == pytest.approx(0.6931 / 3, abs=1e-4)
