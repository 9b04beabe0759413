"""The generalised robust loss, worked out by hand."""

import math

import pytest
import torch

from support.worked_example import bare, entries, value


def test_generalised_robust_loss() -> None:
    """In the third of ten epochs w and b have covered 2 / 10 of their range, mu and sigma 3 / 10; q = 1 costs 1 - p."""
    method = bare(
        "gr", epochs=10, q1=1.0, q2=1.0, q3=1.0, w=(2.0, 4.0), b=(-1.0, -2.0), mu=(0.5, 0.8), sigma=(1.0, 0.5)
    )

    def unknown(p: float) -> float:
        k = 1 / (1 + math.exp(-(2.4 * p - 1.2)))
        return math.exp(-((p - 0.59) ** 2) / (2 * 0.85**2)) * (k * (1 - p) + (1 - k) * p)

    by_hand = entries(0.2, unknown(0.3), unknown(0.5), 0.1, unknown(0.6), 0.1)
    assert value(method, 2) == pytest.approx(by_hand, abs=1e-4)


def test_generalised_robust_loss_at_the_published_values() -> None:
    """The first of ten epochs: k = sigmoid(-2) = 0.1192, mu = 0.53, sigma = 1.85; -log p where observed, q2 = 0.01."""

    def unknown(p: float) -> float:
        return math.exp(-((p - 0.53) ** 2) / (2 * 1.85**2)) * (0.1192 * (1 - p**0.01) / 0.01 + 0.8808 * p)

    by_hand = entries(0.2231, unknown(0.3), unknown(0.5), 0.1, unknown(0.6), 0.1054)
    assert value(bare("gr", epochs=10)) == pytest.approx(by_hand, abs=1e-4)


def test_generalised_robust_loss_nears_cross_entropy() -> None:
    labels = torch.tensor([[1, -1, -1], [-1, -1, 1]], dtype=torch.int8)
    cross_entropy = value(bare("an"), observed=labels)
    assert value(bare("gr", q1=1e-3, q3=1e-3), observed=labels) == pytest.approx(cross_entropy, rel=2e-3)
    assert value(bare("gr", q1=0.0, q3=0.0), observed=labels) == pytest.approx(cross_entropy, abs=1e-5)
