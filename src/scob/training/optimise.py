"""One Adam for all parameters, with the learning rates and schedule of the run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scob.config import TrainSettings
from scob.parallel import Processes


def schedule_factor(step: int, steps: int, warmup: float, kind: str) -> float:
    """The factor of every learning rate at `step` of `steps`: a linear rise, then constant, a cosine to 0, or a step.

    A `step` divides the rates by 10 after four fifths of all steps.
    """
    rise = warmup * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    if kind == "constant":
        return 1.0
    if kind == "step":
        return 1.0 if 5 * step < 4 * steps else 0.1
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1.0, steps - rise))))


class AdamOptimiser:
    """Adam over named groups of parameters, each with its own rate. One iteration may step several losses."""

    def __init__(
        self,
        groups: Mapping[str, Sequence[nn.Parameter]],
        settings: TrainSettings,
        steps: int,
        processes: Processes,
        device: torch.device,
        factors: Mapping[str, float] = {},
    ) -> None:
        """`factors` multiply the rates of the groups that they name."""
        rates = {
            "smt": settings.lr_smt,
            "cnn": settings.lr_cnn,
            "mapping": settings.lr_mapping,
            "other": settings.lr_other,
            "backbone": settings.lr_backbone,
        }
        self.settings, self.steps, self.processes, self.device = settings, steps, processes, device
        self.base: list[float] = []
        param_groups: list[dict[str, object]] = []
        for name, parameters in groups.items():
            trained = [p for p in parameters if p.requires_grad]
            if trained:
                rate = rates[name] * factors.get(name, 1.0)
                self.base.append(rate)
                on_device = torch.tensor(rate, device=device) if device.type == "cuda" else rate
                param_groups.append({"params": trained, "lr": on_device, "weight_decay": settings.weight_decay})
        self.parameters = [p for group in param_groups for p in group["params"]]  # type: ignore[attr-defined]
        cuda, fused = device.type == "cuda", device.type in ("cuda", "cpu")
        self.adam = torch.optim.AdamW(param_groups, fused=fused, capturable=cuda, foreach=None if fused else True)
        self.estimator_rate: Tensor | float = torch.zeros((), device=device) if cuda else 0.0
        self.begin(0)

    def begin(self, step: int) -> None:
        """Set the rates of a step. Never called inside a captured CUDA graph."""
        factor = schedule_factor(step, self.steps, self.settings.warmup, self.settings.schedule)
        for group, base in zip(self.adam.param_groups, self.base, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(base * factor)
            else:
                group["lr"] = base * factor
        if isinstance(self.estimator_rate, Tensor):
            self.estimator_rate.fill_(self.settings.lr_estimator * factor)
        else:
            self.estimator_rate = self.settings.lr_estimator * factor

    def step(self, loss: Tensor, *leaves: Tensor) -> None:
        """Differentiate with respect to the parameters and `leaves` only, sum over processes, update the parameters."""
        self._differentiate(loss, *leaves)
        self.adam.step()

    def extend_step(self, loss: Tensor) -> None:
        """Add another loss of the same iteration to the step that was just taken.

        A second `step` would apply Adam's momentum, which is that of the first loss, once more, however small the
        second loss is. Here the two moves together are one step of Adam along the sum of both gradients. A parameter
        that the first loss does not reach takes a step of its own; one that it reaches, it must reach in every
        iteration.
        """
        first = {p: p.grad for p in self.parameters if p.grad is not None}
        self._differentiate(loss)
        for group in self.adam.param_groups:
            further = [p for p in group["params"] if p in first and p.grad is not None]
            if further:
                self._extend(further, [first[p] for p in further], group)
                for parameter in further:
                    parameter.grad = None
        self.adam.step()

    def _differentiate(self, loss: Tensor, *leaves: Tensor) -> None:
        """Give the parameters and `leaves` this loss's gradients, those of the parameters summed over all processes."""
        self.adam.zero_grad(set_to_none=True)
        torch.autograd.backward(loss, inputs=[*self.parameters, *leaves])
        self.processes.sum_gradients(self.parameters)

    @torch.no_grad()
    def _extend(self, parameters: list[nn.Parameter], before: list[Tensor], group: dict[str, Any]) -> None:
        """Replace the step along the gradients `before` by one along their sum with those that the parameters have."""
        states = [self.adam.state[p] for p in parameters]
        (beta_1, beta_2), count = group["betas"], states[0]["step"]
        gradients = [p.grad for p in parameters if p.grad is not None]
        first, second = ([state[key] for state in states] for key in ("exp_avg", "exp_avg_sq"))

        def moves() -> list[Tensor]:
            scale = list(torch._foreach_sqrt(second))
            torch._foreach_div_(scale, (1 - beta_2**count).sqrt())
            torch._foreach_add_(scale, group["eps"])
            return list(torch._foreach_div(first, scale))

        taken = moves()
        torch._foreach_add_(first, gradients, alpha=1 - beta_1)
        # (g + h)^2 = g^2 + (2 g + h) h, and g^2 is in the second moment already.
        doubled = list(torch._foreach_mul(before, 2.0))
        torch._foreach_add_(doubled, gradients)
        torch._foreach_addcmul_(second, doubled, gradients, value=1 - beta_2)
        torch._foreach_clamp_min_(second, 0.0)  # against rounding
        change = moves()
        torch._foreach_sub_(change, taken)
        torch._foreach_mul_(change, group["lr"] / (1 - beta_1**count))
        torch._foreach_sub_(tuple(parameters), tuple(change))

    def state(self) -> dict[str, Tensor]:
        """Adam's moments by parameter number, for a checkpoint."""
        moments: dict[str, Tensor] = {}
        for number, parameter in enumerate(self.parameters):
            for key, value in self.adam.state.get(parameter, {}).items():
                moments[f"{number}.{key}"] = value if isinstance(value, Tensor) else torch.tensor(value)
        return moments

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put the moments of a checkpoint back, in the memory format of their parameter, which a fused Adam expects."""
        for number, parameter in enumerate(self.parameters):
            moments = {k.partition(".")[2]: v for k, v in state.items() if k.partition(".")[0] == str(number)}
            if moments:
                counted_on = parameter.device if self.device.type == "cuda" else torch.device("cpu")
                self.adam.state[parameter] = {
                    k: v.to(counted_on).clone() if k == "step" else torch.empty_like(parameter).copy_(v)
                    for k, v in moments.items()
                }
