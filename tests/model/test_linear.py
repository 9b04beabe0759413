"""The linear part of a network: what it reads, and what its share does."""

import numpy as np
import pytest
import torch
from torch import Tensor

from scob.config import ModelSettings
from scob.model.backbone import Features
from scob.model.fast_network import FastNetwork
from scob.model.linear import LinearPart, strongest_cells
from scob.model.load_backbone import load_backbone
from scob.model.network import Network, build_network


def strongest_one_by_one(cells: Tensor, keep: Tensor | None) -> Tensor:
    """The same in a loop over images and channels."""
    answer = torch.zeros(cells.shape[:2])
    count = max(1, round(cells.shape[2] * cells.shape[3] / 20))
    for image, channels in enumerate(cells):
        seen = torch.ones(cells.shape[2:], dtype=torch.bool) if keep is None or not keep[image].any() else keep[image]
        for number, channel in enumerate(channels):
            highest = sorted(channel[seen].tolist(), reverse=True)[:count]
            answer[image, number] = float(np.mean(highest))
    return answer


@pytest.mark.parametrize("side", [3, 7, 9])
@pytest.mark.parametrize("masked", [False, True])
def test_the_strongest_cells_are_those_of_a_loop(side: int, masked: bool) -> None:
    cells = torch.randn(4, 5, side, side)
    keep = torch.rand(4, side, side) < 0.3 if masked else None
    if keep is not None:
        keep[0], keep[1] = False, False  # an image that keeps no cell is read whole
        keep[1, 0, 0] = True  # fewer cells than a twentieth of 81
    assert torch.allclose(strongest_cells(cells, keep), strongest_one_by_one(cells, keep), atol=1e-6)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(1)
    settings = ModelSettings(width=32, heads=4, feedforward=64, linear=True)
    return build_network(load_backbone("drawings"), settings, 5, 64).eval()


def fitted(network: Network, share: float) -> Network:
    """The network with some linear classifier."""
    assert network.linear is not None
    torch.manual_seed(2)
    network.linear.weight.data.normal_()
    network.linear.bias.data.normal_()
    network.linear.scale.copy_(torch.tensor([0.7, 1.9]))
    network.linear.share.fill_(share)
    return network


def some_features(network: Network) -> Features:
    with torch.no_grad():
        third, fourth = network.backbone(torch.randn(3, 3, 64, 64))
    return third, fourth


def test_before_it_is_fitted_and_in_training_the_head_decides_alone(network: Network) -> None:
    features = some_features(network)
    head = network.classifier(network.embed(features))
    assert torch.equal(network.classify(features), head)
    fitted(network, 0.5)
    assert not torch.allclose(network.classify(features), head)
    network.train()
    network.head.eval()
    assert torch.equal(network.classify(features), head)


def test_the_logits_are_the_mean_of_both(network: Network) -> None:
    features = some_features(fitted(network, 0.5))
    part = network.linear
    assert part is not None
    means = features[1].mean(dim=(2, 3)), strongest_cells(features[1])
    alone = (0.7 * means[0] + 1.9 * means[1]) @ part.weight.T + part.bias
    both = (network.classifier(network.embed(features)) + alone) / 2
    assert torch.allclose(network.classify(features), both, atol=1e-5)
    before = network.classify(features)
    network.lower(1.5)
    assert torch.allclose(network.classify(features), before - 1.5, atol=1e-5)


def test_it_is_not_trained_and_draws_nothing(network: Network) -> None:
    assert network.linear is not None and not any(p.requires_grad for p in network.linear.parameters())
    torch.manual_seed(0)
    LinearPart(7, 5)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))  # a run with a linear part draws the same weights and dropout


def test_the_fast_network_has_it_too(network: Network) -> None:
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = fitted(network, 0.5)(images)
        assert torch.allclose(FastNetwork(network, torch.float32)(images), expected, atol=1e-3)
        half = FastNetwork(network, torch.bfloat16)(images).float()
    assert (half - expected).abs().max() < 0.05 * expected.abs().max()
