"""Packed cells are the visible ones, each once; attention never looks from one image into another."""

from collections.abc import Iterable

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from scob.model.packed_cells import NARROW, RATIO, group_sizes, pack_visible
from scob.model.visible_cells import few_or_many, masked_mean


def some_seen(images: int = 32, cells: int = 144) -> Tensor:
    """From a few cells to almost all of them."""
    draw = torch.rand(images, cells, generator=torch.Generator().manual_seed(1))
    return draw < torch.linspace(0.05, 0.95, images)[:, None]


def test_every_visible_cell_is_packed_once() -> None:
    seen = some_seen()
    cells = torch.arange(seen.numel()).view(*seen.shape, 1)
    packed = pack_visible(seen)
    assert sorted(packed.take(cells).flatten().tolist()) == cells[seen].flatten().tolist()
    assert packed.image.tolist() == (packed.take(cells)[:, 0] // seen.shape[1]).tolist()


def test_the_mean_is_that_of_the_visible_cells() -> None:
    seen, cells = some_seen(), torch.rand(32, 144, 5, dtype=torch.float64)
    packed = pack_visible(seen)
    torch.testing.assert_close(packed.mean(packed.take(cells)), masked_mean(cells, seen))


def test_attention_is_among_the_visible_cells_of_each_image() -> None:
    """Every cell takes the sum of the values of its own image's visible cells."""
    seen, values = some_seen(9, 20), torch.rand(9, 20, 3)
    packed, shapes = pack_visible(seen), []

    def attention(projected: Iterable[Tensor], allowed: Tensor) -> Tensor:
        q, k, v = projected
        shapes.append(v.shape)
        assert torch.equal(q, 2 * v) and torch.equal(k, 3 * v)
        return (v * allowed[:, 0, 0, :, None]).sum(dim=1, keepdim=True).expand_as(v)

    taken = packed.take(values)
    sums = (values * seen[..., None]).sum(dim=1)
    torch.testing.assert_close(
        packed.attend(torch.cat((2 * taken, 3 * taken, taken), dim=1), attention), sums[packed.image]
    )
    assert sum(len(group.shown) for group in packed.groups) == sum(shape[0] for shape in shapes) == 9


def test_sorted_groups_are_padded_less_than_few_and_many() -> None:
    seen = some_seen()
    counts = seen.sum(dim=1)
    padded = sum(group.padded.numel() for group in pack_visible(seen).groups)
    assert padded < 0.75 * sum(len(rows) * int(counts[rows].max()) for rows in few_or_many(seen))


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40))
def test_the_images_of_a_group_are_about_equally_wide(counts: list[int]) -> None:
    counts.sort()
    sizes = group_sizes(counts)
    assert sum(sizes) == len(counts) and min(sizes) > 0
    first = 0
    for size in sizes:
        group = counts[first : first + size]
        assert group[-1] <= NARROW or RATIO * group[0] >= group[-1]
        first += size
