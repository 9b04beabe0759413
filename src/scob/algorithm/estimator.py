"""The label estimator of ROLE (Cole et al. 2021): a row of estimated labels for every training image.

A step reads, differentiates and updates only the rows of its batch, so it costs the same for any number of images.
`DenseEstimator` (dense_estimator.py) is the same table under an Adam that moves all rows in every step.
"""

import torch
from torch import Tensor

from scob.draws import seed_key, uniform
from scob.model.row_tables import CHUNK, RowModule, RowStorage

BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's
PINNED = 0.995  # where the estimate of an observed positive starts; 1 - PINNED for an observed negative


class Estimator(RowModule):
    """Logits (N + 1, L) with row-wise Adam; the last row is for padding.

    Unknown entries start uniform in [0.5 - xi, 0.5 + xi] (below Eq. 12).
    """

    logits: Tensor
    first: Tensor
    second: Tensor
    visits: Tensor

    def __init__(
        self, observed: Tensor, keys: Tensor, seed: int, xi: float = 0.3, storage: RowStorage = RowStorage()
    ) -> None:
        """observed (N + 1, L) int8 in {-1, 0, 1}; keys (N + 1,) int64 of the images; the last row is padding."""
        super().__init__(storage)
        shape, device = (len(observed), observed.shape[1]), observed.device
        for name in ("logits", "first", "second"):
            self.register_buffer(name, storage.table(f"estimator-{name}", shape, torch.float32, device))
        self.register_counters(len(observed), device)
        for begin in range(0, len(observed), CHUNK):  # the draws of all rows at once would take ten times the table
            known = observed[begin : begin + CHUNK]
            draws = uniform(keys[begin : begin + CHUNK], seed_key(seed, "estimator"), shape[1])
            start = 0.5 - xi + 2 * xi * draws
            start = torch.where(known == 1, PINNED, torch.where(known == -1, 1 - PINNED, start))
            self.logits[begin : begin + CHUNK] = torch.logit(start)

    def register_counters(self, rows: int, device: torch.device) -> None:
        """What Adam counts for each row: its visits."""
        self.register_buffer("visits", self.storage.table("estimator-visits", (rows,), torch.int32, device))

    def rows(self, index: Tensor) -> Tensor:
        """The logits of some images as a leaf tensor that gathers a gradient: (B,) -> (B, L)."""
        return self.logits[index.to(self.logits.device)].to(index.device).detach().requires_grad_()

    @torch.no_grad()
    def move(self, index: Tensor, gradient: Tensor, rate: float | Tensor) -> None:
        """One Adam step of the rows `index`, in which only padding may repeat. No other row changes."""
        device = self.logits.device
        index, gradient = index.to(device), gradient.to(device)
        rate = rate.to(device) if isinstance(rate, Tensor) else rate
        visits = self.visits[index] + 1
        first = BETAS[0] * self.first[index] + (1 - BETAS[0]) * gradient
        second = BETAS[1] * self.second[index] + (1 - BETAS[1]) * gradient.square()
        count = visits[:, None].to(gradient.dtype)
        unbiased = first / (1 - BETAS[0] ** count)
        scale = (second / (1 - BETAS[1] ** count)).sqrt() + EPSILON
        self.logits[index] = self.logits[index] - rate * unbiased / scale
        self.first[index], self.second[index], self.visits[index] = first, second, visits

    def probabilities(self) -> Tensor:
        """The estimated labels of all images, (N, L), without the padding row."""
        return self.logits[:-1].sigmoid()
