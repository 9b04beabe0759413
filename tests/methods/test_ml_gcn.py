"""The correlation matrix of ML-GCN, worked out by hand."""

import torch

from scob.methods.ml_gcn import reweighted


def test_reweighting_by_hand() -> None:
    """a and b are neighbours, c is alone: rows (0.8, 0.2, 0), (0.2, 0.8, 0), (0, 0, 0.8), then degrees 1, 1, 0.8."""
    matrix = reweighted(torch.tensor([[1, 0.5, 0.1], [0.9, 1, 0.2], [0.3, 0.1, 1]]), 0.4, 0.2)
    assert torch.allclose(matrix, torch.tensor([[0.8, 0.2, 0], [0.2, 0.8, 0], [0, 0, 1]]), atol=1e-6)
