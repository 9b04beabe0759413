"""The mask bank returns the masks that were stored, mirrored or not."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from scob.algorithm.masks import MaskBank, flip_cells, pack_bits, unpack_bits

GRIDS = ((5, 6), (3, 3))


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 1000))
def test_packing_loses_nothing(rows: int, count: int, seed: int) -> None:
    bits = torch.rand(rows, count, generator=torch.Generator().manual_seed(seed)) < 0.5
    packed = pack_bits(bits)
    assert packed.shape == (rows, -(-count // 8))
    assert torch.equal(unpack_bits(packed, count), bits)


def masks(seed: int, rows: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.rand(rows, h, w, generator=draw) < 0.5 for h, w in GRIDS)  # type: ignore[return-value]


def test_a_bank_has_980_bits_per_image_at_448() -> None:
    assert MaskBank(10, ((28, 28), (14, 14))).packed.shape == (11, 123)


def test_masks_are_stored_unflipped() -> None:
    bank, stored = MaskBank(4, GRIDS), masks(0)
    seen = torch.tensor([True, False])
    bank.store(torch.tensor([2, 0]), stored, seen)
    upright = bank.load(torch.tensor([2, 0]), torch.tensor([False, False]))
    for kept, given_ in zip(upright, stored, strict=True):
        assert torch.equal(kept[0], given_[0].flip(-1))
        assert torch.equal(kept[1], given_[1])
    again = bank.load(torch.tensor([2, 0]), seen)
    assert all(torch.equal(a, b) for a, b in zip(again, stored, strict=True))


def test_an_image_not_yet_seen_has_an_empty_mask_and_a_new_mask_replaces_the_old() -> None:
    bank, off = MaskBank(4, GRIDS), torch.tensor([False, False])
    assert not any(m.any() for m in bank.load(torch.tensor([1, 4]), off))
    bank.store(torch.tensor([1, 3]), masks(1), off)
    bank.store(torch.tensor([1, 3]), masks(2), off)
    loaded = bank.load(torch.tensor([1, 3]), off)
    assert all(torch.equal(a, b) for a, b in zip(loaded, masks(2), strict=True))
    assert not any(m.any() for m in bank.load(torch.tensor([0, 2]), off))


def test_only_marked_masks_are_mirrored() -> None:
    one = masks(3)[0]
    assert torch.equal(flip_cells(one, torch.tensor([False, True])), torch.stack((one[0], one[1].flip(-1))))
