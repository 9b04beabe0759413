"""Semantic decoupling against the formula, class by class and cell by cell."""

from collections.abc import Callable
from typing import Any

import torch

from support.runs import first_batch


def test_a_class_feature_is_an_attention_weighted_mean_of_the_cells(partial_experiment: Callable[..., Any]) -> None:
    """The weight of a cell f for class c is the softmax of a linear map of tanh(U f * V x_c)."""
    e = partial_experiment("method=ssgrl")
    head, features = e.network.head, e.method.clean_features(first_batch(e))
    nodes = head.represent(features)
    cells = features[1][0].flatten(1).T  # of the first image
    for c in (0, 7):
        vector = head.of_class(head.vectors[c])
        scores = torch.stack([head.attention(torch.tanh(head.of_cell(f) * vector))[0] for f in cells])
        weights = scores.exp() / scores.exp().sum()
        mean = sum(weight * cell for weight, cell in zip(weights, cells, strict=True))
        assert torch.allclose(nodes[0, c], head.reduce(mean), atol=1e-5)
