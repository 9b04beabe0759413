"""BCE with all labels, worked out by hand."""

from types import SimpleNamespace

import pytest
import torch

from support.worked_example import LOGITS, OBSERVED, bare, entries, value


def test_full_labels() -> None:
    full = torch.tensor([[1, -1, 1], [-1, -1, 1]], dtype=torch.int8)
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, 0.9163, 0.1054)
    assert value(bare("full"), observed=full) == pytest.approx(by_hand, abs=1e-4)


def test_an_entry_that_the_data_set_leaves_unknown_has_no_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    batch = SimpleNamespace(weight=torch.tensor([0.5, 0.5]))
    bare("full").losses(logits, OBSERVED, batch)["bce"].backward()
    assert logits.grad is not None
    unknown = OBSERVED == 0
    assert logits.grad[unknown].abs().max() < 1e-6 and logits.grad[~unknown].abs().min() > 1e-3
