"""The linear part: its gradient, lowered logits, and half precision."""

import pytest
import torch

from scob.config import ModelSettings
from scob.data.views import Views
from scob.model.backbone import Backbone
from scob.model.linear import strongest_cells
from scob.model.network import Network, build_network


@pytest.fixture
def network(backbone: Backbone) -> Network:
    """A network whose linear part is random, and has a share of one half."""
    torch.manual_seed(1)
    network = build_network(backbone, ModelSettings(width=32, heads=4, feedforward=64, linear=True), 5, 64).eval()
    assert network.linear is not None and float(network.linear.share) == 0
    network.linear.weight.data.normal_()
    network.linear.bias.data.normal_()
    network.linear.scale.copy_(torch.tensor([0.5, 2.0]))
    network.linear.share.fill_(0.5)
    return network


def test_its_gradient_reaches_only_kept_cells() -> None:
    cells, keep = torch.randn(2, 3, 8, 8, requires_grad=True), torch.rand(2, 8, 8) > 0.5
    strongest_cells(cells, keep).sum().backward()
    assert cells.grad is not None and cells.grad.isfinite().all()
    assert not cells.grad.masked_select(~keep[:, None]).any() and float(cells.grad.sum()) == pytest.approx(6)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_all_logits_are_lowered(network: Network, images: torch.Tensor, share: float) -> None:
    assert network.linear is not None
    network.linear.share.fill_(share)
    views = Views(64).normalise(images)
    before = network(views)
    network.lower(1.5)
    assert torch.allclose(network(views), before - 1.5, atol=1e-4)


def test_half_precision_does_not_round_its_weights(network: Network, images: torch.Tensor) -> None:
    """A bias of a thousand has steps of four in 16 bits."""
    assert network.linear is not None
    network.linear.share.fill_(1)
    network.linear.bias.data.fill_(1001)
    network.linear.weight.data.zero_()
    features = network.backbone(Views(64).normalise(images))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.allclose(network.classify(features).float(), torch.tensor(1001.0), atol=0.1)
