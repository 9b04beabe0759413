"""The masked transformer sees what it is shown, and nothing else."""

import pytest
import torch

from scob.model.smt import stretch
from scob.model.visible_cells import mean_cell
from support.small_smt import make


@pytest.fixture
def keep() -> torch.Tensor:
    mask = torch.zeros(3, 5, 4, dtype=torch.bool)
    mask[0, 1:3, 1:3] = True
    mask[1, 4, :] = True
    mask[2, 0, 0] = True
    return mask


@pytest.mark.parametrize("position", ["input", "qk"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_blind_to_hidden_cells(features: torch.Tensor, keep: torch.Tensor, position: str, norm: str) -> None:
    smt = make(position=position, norm=norm)
    changed = torch.where(keep[:, None], features, features + 100 * torch.randn_like(features))
    assert torch.allclose(smt(features, keep), smt(changed, keep), atol=1e-6, rtol=0)
    assert not torch.allclose(smt(features), smt(changed), atol=1e-2)


def test_each_kept_cell_counts(features: torch.Tensor, keep: torch.Tensor) -> None:
    smt = make()
    for row in range(3):
        for i, j in keep[row].nonzero().tolist():
            changed = features.clone()
            changed[row, :, i, j] += 1
            moved = (smt(changed, keep) - smt(features, keep)).abs().amax(dim=1)
            assert moved[row] > 1e-4
            assert moved.sum() == moved[row]  # the other images do not notice


@pytest.mark.parametrize("position", ["input", "qk"])
def test_an_empty_mask_falls_back_to_no_mask(features: torch.Tensor, keep: torch.Tensor, position: str) -> None:
    smt, empty = make(position=position), keep.clone()
    empty[1] = False
    vectors = smt(features, empty)
    assert torch.isfinite(vectors).all()
    assert torch.allclose(vectors[1], smt(features)[1], atol=1e-6)
    assert torch.allclose(vectors[0], smt(features, keep)[0], atol=1e-6)
    unmasked = smt(features, torch.ones_like(keep))
    assert torch.allclose(unmasked, smt(features), atol=1e-6)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_vector_is_the_mean_of_the_encoded_cells(features: torch.Tensor, norm: str, masked: bool) -> None:
    """Whether the last layer averages before or after its last matrix: the same vector, the same gradients."""
    smt = make(norm=norm, layers=2).double()
    cells, position = features.double().flatten(2).transpose(1, 2), smt.positions(5, 4)
    seen = torch.rand(3, 20, generator=torch.Generator().manual_seed(3)) < 0.4 if masked else None
    vectors = smt.pooled(cells, position, seen), mean_cell(smt.encode(cells, position, seen), seen)
    torch.testing.assert_close(*vectors, atol=1e-12, rtol=1e-10)
    gradients = (torch.autograd.grad(v.square().sum(), list(smt.parameters()), retain_graph=True) for v in vectors)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-10)


def test_dropout_comes_before_the_mean(features: torch.Tensor) -> None:
    smt = make(norm="pre", dropout=0.3).train()
    cells, position = features.flatten(2).transpose(1, 2), smt.positions(5, 4)
    torch.manual_seed(4)
    vectors = smt.pooled(cells, position, None)
    torch.manual_seed(4)
    assert torch.equal(vectors, mean_cell(smt.encode(cells, position, None), None))


def test_no_image_is_no_vector(features: torch.Tensor, keep: torch.Tensor) -> None:
    assert make()(features[:0], keep[:0]).shape == (0, 16)


def test_positions_are_rows_beside_columns() -> None:
    smt = make()
    both = smt.positions(5, 4).view(5, 4, 16)
    for i in range(5):
        for j in range(4):
            assert torch.equal(both[i, j], torch.cat((smt.rows[i], smt.columns[j])))


def test_positions_tell_places_apart(features: torch.Tensor) -> None:
    moved = features.roll(1, 3)
    for position in ("input", "qk"):
        smt = make(position=position)
        assert not torch.allclose(smt(features), smt(moved), atol=1e-4)
        with torch.no_grad():
            smt.rows.zero_()
            smt.columns.zero_()
        assert torch.allclose(smt(features), smt(moved), atol=1e-5)  # without them, a set of cells


def test_qk_positions_do_not_reach_the_values() -> None:
    smt = make(position="qk", layers=1)
    same = torch.ones(1, 6, 5, 4) * torch.randn(1, 6, 1, 1)
    moved = make(position="qk", layers=1)
    with torch.no_grad():
        moved.rows.normal_()
    assert torch.allclose(smt(same), moved(same), atol=1e-5)  # equal values: whatever the attention, the same sum


def test_another_grid_stretches_the_encodings(features: torch.Tensor) -> None:
    smt = make()
    assert smt(torch.randn(2, 6, 7, 9)).shape == (2, 16)
    assert stretch(smt.rows, 5) is smt.rows
    line = torch.arange(4.0)[:, None]
    assert torch.allclose(stretch(line, 8)[1:-1, 0].diff(), torch.full((5,), 0.5))


@pytest.mark.parametrize(("count", "length"), [(1, 4), (3, 6), (7, 14), (14, 28), (14, 9), (7, 3)])
def test_stretched_as_torch_interpolates(count: int, length: int) -> None:
    encoding = torch.rand(count, 5)
    expected = torch.nn.functional.interpolate(encoding.T[None], size=length, mode="linear")[0].T
    assert torch.allclose(stretch(encoding, length), expected, atol=1e-6)
    half = stretch(encoding.bfloat16(), length)
    assert half.dtype == torch.bfloat16 and torch.allclose(half.float(), expected, atol=0.02)


def test_gradients_are_finite_under_any_mask(features: torch.Tensor, keep: torch.Tensor) -> None:
    smt = make().train()
    keep[1] = False
    smt(features.requires_grad_(), keep).sum().backward()
    assert torch.isfinite(features.grad).all()  # type: ignore[arg-type]
    assert (features.grad.abs().sum(1)[0][~keep[0]] == 0).all()  # type: ignore[union-attr]
