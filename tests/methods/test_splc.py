"""Self-paced loss correction, worked out by hand."""

import pytest
import torch

from support.worked_example import OBSERVED, bare, focal_margin, log, value


def test_self_paced_correction_begins_after_the_first_epoch() -> None:
    """Only p = 0.65 passes tau = 0.6: first a negative, p^2 * -log(1 - p), then a positive."""
    logits = torch.logit(torch.tensor([[0.8, 0.3, 0.65]]))
    both = focal_margin(0.8) + 0.09 * log(0.7)
    method = bare("splc")
    before = value(method, 0, OBSERVED[:1], logits)
    after = value(method, 1, OBSERVED[:1], logits)
    assert before == pytest.approx((both + 0.65**2 * log(0.35)) / 3, abs=1e-4)
    assert after == pytest.approx((both + focal_margin(0.65)) / 3, abs=1e-4)


def test_self_paced_correction_leaves_observed_negatives() -> None:
    absent = torch.tensor([[-1, -1, -1]], dtype=torch.int8)
    logits = torch.full((1, 3), 3.0)
    assert value(bare("splc"), 5, absent, logits) == pytest.approx(0.95257**2 * log(1 - 0.95257), abs=1e-3)
