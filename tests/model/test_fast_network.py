"""The fast copy of a network predicts what the network predicts."""

import pytest
import torch
from transformers import ResNetConfig
from transformers.models.resnet.modeling_resnet import ResNetBackbone

from scob.config import ModelSettings
from scob.data.views import Views
from scob.model.backbone import Backbone
from scob.model.fast_network import FastNetwork
from scob.model.network import Network, build_network

SMALL = {"width": 32, "heads": 4, "feedforward": 64}


def four_stages() -> Backbone:
    """A tiny ResNet of four stages, the last two of which are read."""
    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], out_features=["stage3", "stage4"]
    )
    return Backbone(ResNetBackbone(config).eval(), "tiny")


def network_of(head: str = "smt", norm: str = "post") -> Network:
    torch.manual_seed(1)
    return build_network(four_stages(), ModelSettings(head=head, norm=norm, **SMALL), 5, 64).eval()


@pytest.mark.parametrize(("head", "norm"), [("smt", "post"), ("smt", "pre"), ("cnn", "post"), ("linear", "post")])
def test_it_computes_the_same_and_leaves_the_network_alone(head: str, norm: str, images: torch.Tensor) -> None:
    network = network_of(head, norm)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    views = Views(64).normalise(images)
    fast = FastNetwork(network, torch.float32)
    assert torch.allclose(fast(views), network(views), atol=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_all_its_weights_have_the_asked_precision() -> None:
    assert all(p.dtype == torch.float64 for p in FastNetwork(network_of(), torch.float64).parameters())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("graphed", [False, True])
def test_the_first_smt_beside_the_last_stage_computes_the_same(graphed: bool, images: torch.Tensor) -> None:
    network, views = network_of().cuda(), Views(64).normalise(images).cuda()
    fast = FastNetwork(network, torch.float32)
    expected = fast.classifier(fast.head(fast.backbone(views)))
    assert fast._beside is not None  # the hook did run
    if not graphed:
        results = [fast(views) for _ in range(20)]
        assert all(torch.equal(result, results[0]) for result in results)
        assert torch.allclose(results[0], expected, atol=1e-4)
        return
    from scob.bench.workload import replayed

    holder: list[torch.Tensor] = []
    replay = replayed(lambda: holder.append(fast(views)), views.device)
    for _ in range(20):
        holder[-1].zero_()
        replay()
        torch.cuda.synchronize()
        assert torch.allclose(holder[-1], expected, atol=1e-4)
