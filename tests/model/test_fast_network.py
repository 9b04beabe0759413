"""The fast copy of a network predicts what the network predicts."""

from pathlib import Path

import pytest
import torch
from transformers import ResNetConfig
from transformers.models.resnet.modeling_resnet import ResNetBackbone

from scob.bench.workload import replayed
from scob.config import ModelSettings
from scob.data.views import Views
from scob.model.backbone import Backbone
from scob.model.fast_network import FastNetwork, all_but_last_stage, is_resnet_of_four_stages
from scob.model.load_backbone import load_backbone
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


def test_only_a_backbone_whose_maps_are_its_stages_is_divided(family: tuple[str, Path]) -> None:
    """Other families norm a stage before they give it as a map."""
    kind, folder = family
    backbone = load_backbone(str(folder))
    assert is_resnet_of_four_stages(backbone.body) == (kind == "resnet")
    if kind == "resnet":
        images = torch.randn(2, 3, 64, 64)
        third, fourth = backbone(images)
        early = all_but_last_stage(backbone.body, images)
        assert torch.equal(early, third) and torch.equal(backbone.body.encoder.stages[-1](early), fourth)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("graphed", [False, True])
def test_the_first_smt_beside_the_last_stage_computes_the_same(graphed: bool, images: torch.Tensor) -> None:
    network, views = network_of().cuda(), Views(64).normalise(images).cuda()
    fast = FastNetwork(network, torch.float32)
    expected = fast.classifier(fast.head(fast.backbone(views)))
    results = [fast(views) for _ in range(20)]
    assert fast.beside is not None
    assert all(torch.allclose(result, expected, atol=1e-4) for result in results)
    assert fast(views[:0]).shape == (0, 5)
    if graphed:
        replay = replayed(lambda: results.append(fast(views)), views.device)
        for _ in range(20):
            results[-1].zero_()
            replay()
            torch.cuda.synchronize()
            assert torch.allclose(results[-1], expected, atol=1e-4)
