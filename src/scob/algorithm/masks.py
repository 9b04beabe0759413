"""The mask bank: the last foreground mask of every training image at both stages, one bit per cell.

A row of zeros means "not seen yet" or "empty mask". Both hide nothing, so they need not be told apart.
"""

import torch
from torch import Tensor

from scob.model.heads import Grids, Keep
from scob.model.row_tables import RowModule, RowStorage


def _bit_numbers(device: torch.device) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=device)


def pack_bits(bits: Tensor) -> Tensor:
    """(B, n) bool -> (B, ceil(n / 8)) uint8."""
    padded = torch.nn.functional.pad(bits.to(torch.uint8), (0, -bits.shape[1] % 8))
    return (padded.view(len(bits), -1, 8) << _bit_numbers(bits.device)).sum(dim=2, dtype=torch.int32).to(torch.uint8)


def unpack_bits(packed: Tensor, count: int) -> Tensor:
    """(B, m) uint8 -> (B, count) bool."""
    return ((packed[:, :, None] >> _bit_numbers(packed.device)) & 1).bool().flatten(1)[:, :count]


def flip_cells(masks: Tensor, flip: Tensor) -> Tensor:
    """Mirror the masks (B, h, w) whose flip (B,) is true."""
    return torch.where(flip[:, None, None], masks.flip(-1), masks)


def flip_masks(masks: Keep, flip: Tensor) -> Keep:
    """`flip_cells` at both stages."""
    return flip_cells(masks[0], flip), flip_cells(masks[1], flip)


class MaskBank(RowModule):
    """Masks of N images (and a padding row), stored unflipped: 980 bits per image at 448 pixels."""

    packed: Tensor

    def __init__(
        self, images: int, grids: Grids, device: torch.device | None = None, storage: RowStorage = RowStorage()
    ) -> None:
        super().__init__(storage)
        self.grids = grids
        self.cells = tuple(h * w for h, w in grids)
        shape = (images + 1, -(-sum(self.cells) // 8))
        self.register_buffer("packed", storage.table("masks", shape, torch.uint8, device))

    def store(self, rows: Tensor, masks: Keep, flip: Tensor) -> None:
        """Store the masks of views that were mirrored where `flip` is true."""
        upright = [m.flatten(1) for m in flip_masks(masks, flip)]
        self.packed[rows.to(self.packed.device)] = pack_bits(torch.cat(upright, dim=1)).to(self.packed.device)

    def load(self, rows: Tensor, flip: Tensor) -> Keep:
        """The masks of `rows`, mirrored where `flip` is true: (B, h3, w3), (B, h4, w4) bool."""
        bits = unpack_bits(self.packed[rows.to(self.packed.device)].to(rows.device), sum(self.cells))
        third, fourth = bits[:, : self.cells[0]], bits[:, self.cells[0] :]
        return flip_masks((third.reshape(-1, *self.grids[0]), fourth.reshape(-1, *self.grids[1])), flip)
