"""Contrast between whole images, against naive references."""

import math

import pytest
import torch

from scob.methods.image_contrast import byol_loss, nt_xent


def test_byol_is_zero_for_equal_and_four_for_opposite() -> None:
    unit = torch.nn.functional.normalize(torch.randn(3, 5), dim=1)
    assert byol_loss(unit, unit).item() == pytest.approx(0, abs=1e-6)
    assert byol_loss(unit, -unit).item() == pytest.approx(4, abs=1e-6)


def test_nt_xent() -> None:
    torch.manual_seed(0)
    first, second = (torch.nn.functional.normalize(torch.randn(3, 4), dim=1) for _ in range(2))
    views, total = torch.cat((first, second)), 0.0
    for i in range(6):
        others = [math.exp(float(views[i] @ views[j]) / 0.5) for j in range(6) if j != i]
        total += -math.log(math.exp(float(views[i] @ views[(i + 3) % 6]) / 0.5) / sum(others)) / 6
    assert nt_xent(first, second, 0.5).item() == pytest.approx(total, rel=1e-5)
