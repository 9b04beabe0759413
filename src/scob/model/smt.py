"""The recurrent semantic masked transformer (Eq. 4-5, appendix C): one for each backbone stage."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.config import ModelSettings
from scob.model.packed_cells import PackedCells
from scob.model.visible_cells import Visible, mean_cell, pool_visible


class EncoderLayer(nn.Module):
    """Multi-head self-attention and a feed-forward sub-layer; positions, if given, are added to queries and keys."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.heads, self.dropout, self.pre = settings.heads, settings.dropout, settings.norm == "pre"
        width, feedforward = settings.width, settings.feedforward
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.widen = nn.Linear(width, feedforward)
        self.narrow = nn.Linear(feedforward, width)
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feedforward = nn.LayerNorm(width)
        for matrix in (self.qkv, self.out):
            nn.init.xavier_uniform_(matrix.weight)
            nn.init.zeros_(matrix.bias)

    def attend(self, x: Tensor, position: Tensor | None, visible: Visible) -> Tensor:
        """Eq. 4. x (B, N, D), or (T, D) if the cells are packed; position (N, D), or of the shape of x, or None."""
        width = x.shape[-1]
        if position is None:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
        else:
            q, k = F.linear(x + position, self.qkv.weight[: 2 * width], self.qkv.bias[: 2 * width]).chunk(2, dim=-1)
            v = F.linear(x, self.qkv.weight[2 * width :], self.qkv.bias[2 * width :])
        if isinstance(visible, PackedCells):
            mixed = visible.attend(torch.cat((q, k, v), dim=-1), self._attention)
        else:
            mixed = self._attention((q, k, v), None if visible is None else visible[:, None, None, :])
        return self.out(mixed)  # type: ignore[no-any-return]

    def _attention(self, projected: Iterable[Tensor], allowed: Tensor | None) -> Tensor:
        """Queries, keys and values (B, N, D) each; allowed (B, 1, 1, N) bool, the visible keys -> (B, N, D)."""
        q, k, v = (t.view(*t.shape[:2], self.heads, t.shape[2] // self.heads).transpose(1, 2) for t in projected)
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=allowed, dropout_p=self.dropout if self.training else 0.0
        )
        return mixed.transpose(1, 2).flatten(2)

    def feed(self, x: Tensor) -> Tensor:
        return self.narrow(self._drop(self._widened(x)))  # type: ignore[no-any-return]

    def _widened(self, x: Tensor) -> Tensor:
        """relu(widen(x)), without a copy if no gradient is needed: on a GPU in one kernel, if weights are not cast."""
        widen = self.widen
        if torch.is_grad_enabled():
            return F.relu(widen(x))
        if not x.is_cuda or torch.is_autocast_enabled("cuda"):
            return F.relu_(widen(x))
        wide = torch._addmm_activation(widen.bias, x.flatten(0, -2), widen.weight.T)
        return wide.view(*x.shape[:-1], widen.out_features)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def forward(self, x: Tensor, position: Tensor | None, visible: Visible) -> Tensor:
        if self.pre:
            x = x + self._drop(self.attend(self.norm_attention(x), position, visible))
            return x + self._drop(self.feed(self.norm_feedforward(x)))
        x = self.norm_attention(x + self._drop(self.attend(x, position, visible)))
        return self.norm_feedforward(x + self._drop(self.feed(x)))  # type: ignore[no-any-return]

    def pooled(self, x: Tensor, position: Tensor | None, visible: Visible) -> Tensor:
        """The mean of the layer's output over the visible cells: -> (B, D).

        If nothing follows the last matrix (pre-norm, no dropout), it is applied to the mean of its inputs, one vector
        per image instead of one per cell: a third of the layer's multiplications are saved.
        """
        if not self.pre or (self.training and self.dropout):
            return mean_cell(self(x, position, visible), visible)
        x = x + self.attend(self.norm_attention(x), position, visible)
        wide = mean_cell(self._widened(self.norm_feedforward(x)), visible)
        return mean_cell(x, visible) + self.narrow(wide)  # type: ignore[no-any-return]


class SemanticMaskedTransformer(nn.Module):
    """The feature map of one stage to one vector, computed from the cells it is told to keep."""

    def __init__(self, channels: int, grid: tuple[int, int], settings: ModelSettings) -> None:
        super().__init__()
        width = settings.width
        self.position_at_input, self.dropout = settings.position == "input", settings.dropout
        self.reduce = nn.Linear(channels, width)
        self.rows = nn.Parameter(torch.empty(grid[0], width // 2).uniform_(0, 1))
        self.columns = nn.Parameter(torch.empty(grid[1], width - width // 2).uniform_(0, 1))
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.layers))

    def positions(self, height: int, width: int) -> Tensor:
        """Eq. 15: row and column encodings side by side, (height * width, D); stretched to fit another grid."""
        rows, columns = stretch(self.rows, height), stretch(self.columns, width)
        both = torch.cat((rows[:, None, :].expand(-1, width, -1), columns[None, :, :].expand(height, -1, -1)), dim=-1)
        return both.flatten(0, 1)

    def forward(self, features: Tensor, keep: Tensor | None = None) -> Tensor:
        """features (B, C, h, w), keep (B, h, w) bool or None -> (B, D).

        Eq. 5 prints (1 - M) but means: keep the foreground, M = 1, and hide the rest. Hidden cells are neither keys
        nor pooled, so nothing in them reaches the result. An image that keeps no cell is read whole.
        """
        height, width = features.shape[2:]
        cells = features.flatten(2).transpose(1, 2)
        position = self.positions(height, width)
        if keep is None:
            return self.pooled(cells, position, None)
        seen = keep.flatten(1)
        seen = seen | ~seen.any(dim=1, keepdim=True)
        return pool_visible(self.pooled, cells, position, seen, draws=self.training and self.dropout > 0)

    def encode(self, cells: Tensor, position: Tensor, visible: Visible) -> Tensor:
        """Cells (B, n, C) and their positions (n, D) or (B, n, D); which of them are visible -> (B, n, D)."""
        x, where = self.placed(cells, position)
        for layer in self.layers:
            x = layer(x, where, visible)
        return x

    def pooled(self, cells: Tensor, position: Tensor, visible: Visible) -> Tensor:
        """The mean of what `encode` returns over the visible cells: -> (B, D). Packed cells are (T, C)."""
        x, where = self.placed(cells, position)
        for layer in self.layers[:-1]:
            x = layer(x, where, visible)
        last: EncoderLayer = self.layers[-1]  # type: ignore[assignment]
        return last.pooled(x, where, visible)

    def placed(self, cells: Tensor, position: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the first layer reads (B, n, D), and the positions that every layer adds to queries and keys."""
        x: Tensor = self.reduce(cells)
        position = position.to(x.dtype)
        return (x + position, None) if self.position_at_input else (x, position)


def stretch(encoding: Tensor, length: int) -> Tensor:
    """A learned 1-D encoding (n, D), interpolated linearly to another length (length, D).

    As `F.interpolate` does it without aligned corners, but its gradient on a GPU is the same in every run. Half
    precision would be too coarse for the places.
    """
    count = len(encoding)
    if count == length:
        return encoding
    places = torch.arange(length, device=encoding.device, dtype=torch.promote_types(encoding.dtype, torch.float32))
    at = ((places + 0.5) * (count / length) - 0.5).clamp(0, count - 1)
    near = (1 - (at[:, None] - torch.arange(count, device=encoding.device)).abs()).clamp(min=0)
    return (near[:, :, None] * encoding).sum(dim=1).to(encoding.dtype)
