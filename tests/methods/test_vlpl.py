"""VLPL, worked out by hand."""

import pytest
import torch

from scob.methods.vlpl import likely
from support.worked_example import bare, entries, entropy, log, value


def test_a_class_is_likely_by_its_softmax_over_the_classes() -> None:
    """Cosines 0.01 apart are one apart after the division: 0.665, 0.245, 0.090."""
    prior = torch.tensor([[0.25, 0.24, 0.23], [0.2, 0.2, 0.2]])
    assert likely(prior, 0.01, 0.3).tolist() == [[True, False, False], [True, True, True]]
    assert likely(prior, 0.01, 0.2).tolist()[0] == [True, True, False]
    assert likely(prior, 0.0, 0.235).tolist()[0] == [True, True, False], "probabilities are taken as they are"


def test_pseudo_positives_have_a_soft_label_and_the_rest_is_em() -> None:
    method = bare("vlpl", beta=0.5)
    method.register_buffer("pseudo_positive", torch.tensor([[False, True, False], [False] * 3, [False] * 3]))
    soft = 0.5 * (0.9 * log(0.3) + 0.1 * log(0.7))
    by_hand = entries(0.2231, soft, -0.2 * entropy(0.5), 0.1054, -0.2 * entropy(0.6), 0.1054)
    assert value(method) == pytest.approx(by_hand, abs=1e-4)
