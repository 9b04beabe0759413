"""The label estimator of ROLE (Cole et al. 2021): a row of estimated labels for every training image.

Only the rows of a batch are read, differentiated and moved, so a step costs the same whatever the number of images.
"""

import torch
from torch import Tensor, nn

from scob.draws import seed_key, uniform

PINNED = 0.995


class Estimator(nn.Module):
    """Logits (N + 1, L) with row-wise Adam; the last row is for padding.

    Unknown entries start uniform in [0.5 - xi, 0.5 + xi] (below Eq. 12).
    """

    logits: Tensor
    first: Tensor
    second: Tensor
    visits: Tensor

    def __init__(self, observed: Tensor, keys: Tensor, seed: int, xi: float = 0.3) -> None:
        """observed (N + 1, L) int8 in {-1, 0, 1}; keys (N + 1,) int64 of the images; the last row is padding."""
        super().__init__()
        spread = uniform(keys, seed_key(seed, "estimator"), observed.shape[1])
        start = 0.5 - xi + 2 * xi * spread
        start = torch.where(observed == 1, PINNED, torch.where(observed == -1, 1 - PINNED, start))
        self.register_buffer("logits", torch.logit(start))
        self.register_buffer("first", torch.zeros_like(self.logits))
        self.register_buffer("second", torch.zeros_like(self.logits))
        self.register_buffer("visits", torch.zeros(len(observed), dtype=torch.int32, device=observed.device))

    def rows(self, index: Tensor) -> Tensor:
        """The logits of some images as a leaf that gathers a gradient: (B,) -> (B, L)."""
        return self.logits[index].detach().requires_grad_()

    @torch.no_grad()
    def move(
        self, index: Tensor, gradient: Tensor, rate: float | Tensor, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        """One Adam step of the rows `index`, which must not repeat (padding may); every other row stays as it is."""
        visits = self.visits[index] + 1
        first = betas[0] * self.first[index] + (1 - betas[0]) * gradient
        second = betas[1] * self.second[index] + (1 - betas[1]) * gradient.square()
        count = visits[:, None].to(gradient.dtype)
        unbiased = first / (1 - betas[0] ** count)
        scale = (second / (1 - betas[1] ** count)).sqrt() + 1e-8
        self.logits[index] = self.logits[index] - rate * unbiased / scale
        self.first[index], self.second[index], self.visits[index] = first, second, visits

    def probabilities(self) -> Tensor:
        """The estimated labels of all images, (N, L), without the padding row."""
        return self.logits[:-1].sigmoid()
