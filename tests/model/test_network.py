"""The network, the target that follows it, and the paper's parameter counts."""

from pathlib import Path

import pytest
import torch
from torch import nn

from scob.config import ModelSettings, preset_values
from scob.errors import UserError
from scob.model import heads
from scob.model.load_backbone import backbone_from_config, load_backbone
from scob.model.network import Network, Projector, Target, build_network, follow

DOCS = Path(__file__).parents[2] / "docs"
SMALL = {"width": 16, "heads": 2, "feedforward": 32, "layers": 1, "projection": 8}


def small(backbone: Path, **changes: object) -> Network:
    torch.manual_seed(0)
    settings = ModelSettings(**{**SMALL, **changes})  # type: ignore[arg-type]
    return build_network(load_backbone(str(backbone)), settings, 5, 64)


def millions(network: nn.Module, projector: nn.Module | None = None) -> float:
    parts = [network] if projector is None else [network, projector]
    return sum(p.numel() for part in parts for p in part.parameters()) / 1e6


@pytest.mark.parametrize(
    ("head", "mapping", "printed"), [("smt", True, 38.3), ("smt", False, 38.3), ("cnn", False, 36.6),
    ("large-cnn", False, 45.0)],
)  # fmt: skip
def test_the_documented_parameters_are_those_of_the_code(head: str, mapping: bool, printed: float) -> None:
    """And close to what the paper prints; for the SMT, that is the number with the mapping layer."""
    with torch.device("meta"):
        backbone = backbone_from_config({"model_type": "resnet", "out_features": ["stage3", "stage4"]}, "ResNet-50")
        settings = ModelSettings(**{**preset_values("paper")["model"], "head": head})
        network = build_network(backbone, settings, 80, 448, ((28, 28), (14, 14)))
        projector = Projector(network.dimension, settings.projection, settings.projector) if mapping else None
    count = millions(network, projector)
    for page in (heads.__doc__ or "", (DOCS / "paper.md").read_text(encoding="utf-8")):
        assert f"{count:.2f}M" in page
    assert count == pytest.approx(printed, abs=0.6 if head == "smt" and not mapping else 0.08)


@pytest.mark.parametrize("head", ["smt", "cnn", "large-cnn", "linear"])
def test_every_head_gives_logits_and_heeds_a_mask(tiny_backbone: Path, head: str) -> None:
    network = small(tiny_backbone, head=head).eval()
    features = network.backbone(torch.randn(2, 3, 64, 64))
    assert network.classify(features).shape == (2, 5)
    keep = (torch.zeros(2, 8, 8, dtype=torch.bool), torch.zeros(2, 4, 4, dtype=torch.bool))
    assert torch.allclose(network.embed(features, keep), network.embed(features), atol=1e-6)  # empty: no mask
    keep[0][:, :4], keep[1][:, :2] = True, True
    assert not torch.allclose(network.embed(features, keep), network.embed(features), atol=1e-4)


def test_a_width_that_cannot_be_divided_is_refused(tiny_backbone: Path) -> None:
    with pytest.raises(UserError, match=r"model\.width=18"):
        small(tiny_backbone, width=18, heads=4)


def test_the_target_starts_equal_and_is_never_trained(tiny_backbone: Path) -> None:
    network, projector = small(tiny_backbone), Projector(32, 8, "map")
    target = Target(network, projector)
    for copied, online in ((target.head, network.head), (target.projector, projector)):
        for (n, a), (m, b) in zip(copied.named_parameters(), online.named_parameters(), strict=True):
            assert n == m
            assert torch.equal(a, b)
            assert a.data_ptr() != b.data_ptr()
            assert not a.requires_grad
    assert not target.train().training
    network.eval()
    features = network.backbone(torch.randn(2, 3, 64, 64))
    assert torch.equal(target.key(features, None), projector.key(network.embed(features)).detach())


def test_the_target_is_the_ema_recurrence(tiny_backbone: Path) -> None:
    network, projector = small(tiny_backbone), Projector(32, 8, "map")
    target = Target(network, projector)
    online = [*network.head.parameters(), *projector.parameters()]
    expected = [p.detach().double().clone() for p in online]
    for _ in range(7):
        with torch.no_grad():
            for p in online:
                p.add_(torch.randn_like(p))
        target.follow(network, projector, 0.9)
        expected = [0.9 * e + 0.1 * p.detach().double() for e, p in zip(expected, online, strict=True)]
    averages = [*target.head.parameters(), *target.projector.parameters()]
    assert all(torch.allclose(f.double(), e, atol=1e-5) for f, e in zip(averages, expected, strict=True))
    target.follow(network, projector, 0.0)
    assert all(torch.equal(f, p) for f, p in zip(averages, online, strict=True))


def test_follow_is_in_place() -> None:
    average, value = [torch.zeros(3)], [torch.ones(3)]
    address = average[0].data_ptr()
    follow(average, value, 0.75)
    assert average[0].data_ptr() == address
    assert average[0].tolist() == [0.25] * 3


@pytest.mark.parametrize(("kind", "dimension"), [("map", 8), ("query-mlp", 32)])
def test_queries_and_keys_are_unit_vectors_of_one_dimension(kind: str, dimension: int) -> None:
    projector, embedding = Projector(32, 8, kind), torch.randn(4, 32)
    query, key = projector.query(embedding), projector.key(embedding)
    assert query.shape == key.shape == (4, dimension)
    assert projector.dimension == dimension
    assert torch.allclose(query.norm(dim=1), torch.ones(4), atol=1e-5)
    assert torch.allclose(key.norm(dim=1), torch.ones(4), atol=1e-5)
    assert torch.equal(query, key) == (kind == "map")
