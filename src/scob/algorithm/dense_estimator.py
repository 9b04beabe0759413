"""The label estimator as the paper trains it: one Adam over the whole table, in which every row moves in every step.

Between two visits of an image the gradient of its row is zero, but Adam's moments go on moving the row for some hundred
steps. These steps are made up for when the row is next read, so a step costs the same for any number of images.
"""

import math

import torch
from torch import Tensor

from scob.algorithm.estimator import BETAS, EPSILON, Estimator

TERMS = 256  # later steps move a row by less than 0.9005 ** 256 = 2e-12 of the first one
READ = 1 << 12  # rows that are brought up to date at once: each needs TERMS numbers


class DenseEstimator(Estimator):
    """Logits (N + 1, L) that follow a dense Adam. A row's moments and logits are those of its last visit, step `last`.

    With a schedule of learning rates, the steps after a visit use the rate of that visit (`rates`).
    """

    step: Tensor
    last: Tensor
    rates: Tensor

    def register_counters(self, rows: int, device: torch.device) -> None:
        """All steps, and the step and learning rate of each row's last visit."""
        self.register_buffer("last", self.storage.table("estimator-last", (rows,), torch.int32, device))
        self.register_buffer("rates", self.storage.table("estimator-rates", (rows,), torch.float32, device))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64, device=self.last.device))

    def current(self, index: Tensor) -> Tensor:
        """The logits of the rows `index` after all steps so far, (B, L)."""
        total, epsilon, variance = self.skipped_steps(index)
        scale = (self.second[index].sqrt() + epsilon).clamp(min=1e-18)
        return self.logits[index] - total * self.first[index] / scale * (1 + variance / scale.square())

    def skipped_steps(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The steps since a row's last visit s as one: for moments m and v (B, L), total * m / (sqrt(v) + epsilon).

        Step s + j has the moments b1^j m and b2^j v. Without Adam's epsilon it moves the row by a_j m / sqrt(v), with
        a_j = rate * (b1 / sqrt(b2))^j * sqrt(1 - b2^(s+j)) / (1 - b1^(s+j)). `total` (B, 1) is the sum of the a_j.
        Relative to sqrt(v), Adam's epsilon grows with j: `epsilon` and `variance` (B, 1) are its mean and variance
        under the weights a_j. They only matter for gradients of less than about 1e-5.
        """
        last = self.last[index].to(self.first.dtype)[:, None]
        after = torch.arange(1, TERMS + 1, device=last.device, dtype=last.dtype)
        taken = after <= (self.step - self.last[index].to(torch.int64))[:, None]
        first, second = (-torch.expm1((last + after) * math.log(beta)) for beta in BETAS)
        decay = torch.exp(after * math.log(BETAS[0] / math.sqrt(BETAS[1])))
        moved = torch.where(taken, self.rates[index].to(last.dtype)[:, None] * decay * second.sqrt() / first, 0.0)
        relative = EPSILON * (second * torch.exp(-after * math.log(BETAS[1]))).sqrt()
        total = moved.sum(dim=1, keepdim=True)
        weights = moved / total.clamp(min=1e-30)
        epsilon = (weights * relative).sum(dim=1, keepdim=True)
        return total, epsilon, (weights * (relative - epsilon).square()).sum(dim=1, keepdim=True)

    def rows(self, index: Tensor) -> Tensor:
        return self.current(index.to(self.logits.device)).to(index.device).detach().requires_grad_()

    @torch.no_grad()
    def move(self, index: Tensor, gradient: Tensor, rate: float | Tensor) -> None:
        """One Adam step of the whole table, whose gradient is 0 but for the rows `index`; only padding may repeat."""
        device = self.logits.device
        index, gradient = index.to(device), gradient.to(device)
        rate = rate.to(device) if isinstance(rate, Tensor) else rate
        logits = self.current(index)
        self.step += 1
        passed = (self.step - self.last[index].to(torch.int64)).to(self.first.dtype)[:, None]
        count = self.step.to(self.first.dtype)
        kept = [torch.exp(passed * math.log(beta)) for beta in BETAS]
        first = kept[0] * self.first[index] + (1 - BETAS[0]) * gradient
        second = kept[1] * self.second[index] + (1 - BETAS[1]) * gradient.square()
        unbiased, variance = (
            moment / -torch.expm1(count * math.log(beta)) for moment, beta in zip((first, second), BETAS, strict=True)
        )
        self.logits[index] = logits - rate * unbiased / (variance.sqrt() + EPSILON)
        self.first[index], self.second[index] = first, second
        self.last[index] = self.step.to(torch.int32).expand(len(index))
        self.rates[index] = torch.zeros_like(self.rates[index]) + rate

    def probabilities(self) -> Tensor:
        rows = torch.arange(len(self.logits) - 1, device=self.logits.device)
        current = torch.empty_like(self.logits[:-1])
        for begin in range(0, len(rows), READ):
            current[begin : begin + READ] = self.current(rows[begin : begin + READ]).sigmoid()
        return current
