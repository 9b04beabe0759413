"""The logits of all training images at one moment of the training, kept until its end."""

import torch
from torch import Tensor

from scob.model.row_tables import CHUNK, RowModule, RowStorage


class KeptLogits(RowModule):
    """A table (N, L) in half precision, empty until `keep` is called."""

    table: Tensor
    filled: Tensor

    def __init__(self, images: int, classes: int, device: torch.device, storage: RowStorage = RowStorage()) -> None:
        super().__init__(storage)
        self.register_buffer("table", storage.table("kept-logits", (images, classes), torch.float16, device))
        self.register_buffer("filled", torch.zeros((), dtype=torch.bool))

    def keep(self, scores: Tensor) -> None:
        """Keep the logits of these probabilities (N, L)."""
        for begin in range(0, len(scores), CHUNK):  # all at once would take two more tables of full precision
            some = scores[begin : begin + CHUNK]
            self.table[begin : begin + CHUNK] = some.clamp(1e-6, 1 - 1e-6).logit()
        self.filled.fill_(True)

    def averaged(self, logits: Tensor) -> Tensor:
        """The mean of these logits and those kept, (N, L) each; these alone if none were kept."""
        return (logits + self.table.to(logits)) / 2 if self.filled.item() else logits
