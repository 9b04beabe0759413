"""Asymmetric pseudo-labelling, worked out by hand."""

import pytest
import torch

from support.worked_example import LOGITS, bare, entries, entropy, log, value


def test_pseudo_labels_take_the_least_likely_unknown_entries() -> None:
    """After 5 of 10 epochs the share is a fifth of theta = 1: the lower of two unknown labels, or the only one."""
    method = bare("em-apl", epochs=10, theta=1.0, beta=0.5)
    method.problem.observed = torch.tensor([[1, 0, 0], [-1, 0, 1], [0, 0, 0]], dtype=torch.int8)
    method.register_buffer("remembered", torch.cat((LOGITS, torch.full((1, 3), -9.0))))
    method.register_buffer("pseudo", torch.zeros(3, 3))
    method.register_buffer("decided", torch.zeros(3, 3, dtype=torch.bool))
    method.review(4)
    assert not method.decided.any()
    method.review(5)
    assert method.decided.tolist() == [[False, True, True], [False, False, False], [False, False, False]]
    cross = 0.5 * (0.3 * log(0.3) + 0.7 * log(0.7))
    even = 0.5 * log(0.5)
    by_hand = entries(0.2231, cross, even, 0.1054, -0.2 * entropy(0.6), 0.1054)
    assert value(method, 5) == pytest.approx(by_hand, abs=1e-4)
    method.remembered.fill_(-9.0)
    method.review(9)
    assert method.decided.tolist() == [[False, True, True], [False, True, False], [False, False, False]]
    assert method.pseudo[0].tolist() == pytest.approx([0, 0.3, 0.5], abs=1e-6), "earlier decisions stay"
    assert method.pseudo[1, 1] < 1e-3, "a new decision is the current prediction"
