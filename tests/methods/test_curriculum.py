"""Curriculum labelling, worked out by hand."""

import pytest
import torch

from support.worked_example import bare, entries, value


def test_curriculum_fills_in_what_it_was_confident_about() -> None:
    """Logits of 2.5 and -2.5 pass theta = 2, 1.5 does not, an observed label stays as it is."""
    method = bare("curriculum", epochs=4)
    method.register_buffer("remembered", torch.tensor([[-9.0, 2.5, 1.5], [9.0, -2.5, 0.0], [0.0, 0.0, 0.0]]))
    method.register_buffer("taken", torch.zeros(3, 3, dtype=torch.int8))
    method.review(1)
    assert method.taken.tolist() == [[0, 1, 0], [0, -1, 0], [0, 0, 0]]
    two, three = 5.45 - 4.45 * 2 / 3, 1.0
    by_hand = entries(two * 0.2231, two * 1.2040, 0, three * 0.1054, three * 0.9163, three * 0.1054)
    assert value(method, 1) == pytest.approx(by_hand, abs=1e-4)
