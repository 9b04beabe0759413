"""Heads: their layers, and what a mask does to them."""

import pytest
import torch

from scob.config import ModelSettings
from scob.model.heads import ConvHead, LinearHead, SmtHead, build_head, pool

GRIDS = ((4, 4), (2, 2))


def test_heads_have_the_widths_they_are_written_down_with() -> None:
    shapes = []
    for name in ("cnn", "large-cnn"):
        head = build_head((8, 2048), ((4, 4), (2, 2)), ModelSettings(head=name))
        shapes.append([tuple(c.weight.shape[:2]) for c in head.convolutions])
    assert shapes[0] == [(512, 2048), (768, 512)]
    assert shapes[1] == [(512, 2048), (768, 512), (768, 768), (448, 768)]


@pytest.mark.parametrize(("name", "dimension"), [("smt", 32), ("cnn", 24), ("large-cnn", 14), ("linear", 6)])
def test_a_head_gives_vectors_of_its_dimension(name: str, dimension: int) -> None:
    head = build_head((3, 6), GRIDS, ModelSettings(head=name, width=16, heads=2, feedforward=8))
    features = torch.randn(2, 3, 4, 4), torch.randn(2, 6, 2, 2)
    assert head(features).shape == (2, dimension)
    assert head.dimension == dimension


def test_the_smt_head_is_one_smt_per_stage_side_by_side() -> None:
    head = SmtHead((3, 6), GRIDS, ModelSettings(width=16, heads=2, feedforward=8)).eval()
    features = torch.randn(2, 3, 4, 4), torch.randn(2, 6, 2, 2)
    keep = torch.rand(2, 4, 4) < 0.5, torch.rand(2, 2, 2) < 0.5
    expected = torch.cat([s(f, k) for s, f, k in zip(head.stages, features, keep, strict=True)], dim=1)
    assert torch.equal(head(features, keep), expected)


def test_a_convolution_that_keeps_its_width_is_residual() -> None:
    head = ConvHead(4, (4,))
    torch.nn.init.zeros_(head.convolutions[0].weight)
    fourth = torch.randn(2, 4, 3, 3)
    assert torch.allclose(head((fourth, fourth)), fourth.mean(dim=(2, 3)))


def test_pooling_takes_the_kept_cells_or_all_if_none_is_kept() -> None:
    cells = torch.arange(8.0).view(2, 1, 2, 2)
    kept = torch.tensor([[[True, False], [False, True]], [[False, False], [False, False]]])
    assert pool(cells, None).tolist() == [[1.5], [5.5]]
    assert pool(cells, (kept, kept)).tolist() == [[1.5], [5.5]]
    kept[0, 0, 0] = False
    assert pool(cells, (kept, kept)).tolist() == [[3.0], [5.5]]
    assert LinearHead(1)((cells, cells), (kept, kept)).tolist() == [[3.0], [5.5]]
