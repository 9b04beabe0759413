"""The schedule, the rates of the groups, and moments that survive a checkpoint."""

import pytest
import torch
from torch import nn

from scob.config import TrainSettings
from scob.parallel import Processes
from scob.training.optimise import AdamOptimiser, schedule_factor


def make(**changes: object) -> tuple[nn.Linear, nn.Linear, AdamOptimiser]:
    torch.manual_seed(0)
    smt, other = nn.Linear(3, 3), nn.Linear(3, 1)
    settings = TrainSettings(lr_smt=0.1, lr_other=0.01, warmup=0.0, schedule="constant", **changes)
    groups = {"smt": list(smt.parameters()), "other": list(other.parameters()), "mapping": []}
    return smt, other, AdamOptimiser(groups, settings, 100, Processes(), torch.device("cpu"))


def test_the_rate_rises_then_falls_along_a_cosine() -> None:
    factors = [schedule_factor(s, 100, 0.1, "cosine") for s in range(100)]
    assert all(0 < f <= 1 for f in factors)
    assert factors[:11] == sorted(factors[:11])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[10] == 1
    assert factors[55] == pytest.approx(0.5, abs=0.01)
    assert factors[99] < 0.001
    assert [schedule_factor(s, 100, 0.0, "constant") for s in (0, 50, 99)] == [1, 1, 1]
    assert schedule_factor(0, 1, 1.0, "cosine") > 0


@pytest.mark.parametrize("steps_per_epoch", [1, 7, 715, 10267])
def test_a_step_divides_the_rate_by_ten_after_16_of_20_epochs(steps_per_epoch: int) -> None:
    steps, drop = 20 * steps_per_epoch, 16 * steps_per_epoch
    assert [schedule_factor(s, steps, 0.0, "step") for s in (0, drop - 1, drop, steps - 1)] == [1, 1, 0.1, 0.1]
    assert schedule_factor(0, steps, 0.2, "step") < 1  # the warm-up comes first


def test_it_is_adam_with_one_rate_per_group() -> None:
    smt, other, optimiser = make()
    torch.manual_seed(0)
    twin_smt, twin_other = nn.Linear(3, 3), nn.Linear(3, 1)
    adam = torch.optim.Adam(
        [{"params": twin_smt.parameters(), "lr": 0.1}, {"params": twin_other.parameters(), "lr": 0.01}]
    )
    x = torch.randn(4, 3)
    for step in range(5):
        optimiser.begin(step)
        optimiser.step(other(smt(x)).square().mean())
        adam.zero_grad()
        twin_other(twin_smt(x)).square().mean().backward()
        adam.step()
    for a, b in zip(
        (*smt.parameters(), *other.parameters()), (*twin_smt.parameters(), *twin_other.parameters()), strict=True
    ):
        assert torch.allclose(a, b, atol=1e-7)


def test_an_extended_step_is_one_step_of_adam_along_both_gradients() -> None:
    smt, other, optimiser = make(weight_decay=0.1)
    twin = nn.Parameter(smt.weight.detach().clone())
    adam = torch.optim.AdamW([twin], lr=0.1, weight_decay=0.1)
    x = torch.randn(8, 3)
    for step in range(6):
        optimiser.begin(step)
        twin.grad = torch.zeros_like(twin)
        for number, take in enumerate((optimiser.step, optimiser.extend_step)):
            loss = other(smt(x)).square().mean() if number == 0 else 3.0 * smt(x).sin().mean()
            twin.grad += torch.autograd.grad(loss, smt.weight, retain_graph=True)[0]
            take(loss)
        adam.step()
        assert torch.allclose(smt.weight, twin, atol=1e-5)


def test_a_step_extended_by_zero_moves_nothing_but_a_second_step_does() -> None:
    smt, other, optimiser = make()
    x = torch.randn(8, 3)
    for take, moves in ((optimiser.extend_step, False), (optimiser.step, True)):
        optimiser.step(other(smt(x)).square().mean())
        before = smt.weight.detach().clone()
        take(0.0 * smt(x).mean())
        assert (not torch.equal(smt.weight, before)) == moves


def test_parameters_that_only_the_further_loss_reaches_take_a_whole_step() -> None:
    smt, other, optimiser = make()
    torch.manual_seed(0)
    _, twin = nn.Linear(3, 3), nn.Linear(3, 1)
    adam = torch.optim.Adam(twin.parameters(), lr=0.01)
    x = torch.randn(4, 3)
    for _ in range(3):
        optimiser.step(smt(x).square().mean())
        optimiser.extend_step(other(x).square().mean())
        adam.zero_grad()
        twin(x).square().mean().backward()
        adam.step()
    assert torch.allclose(other.weight, twin.weight, atol=1e-7)


def test_parameters_that_a_loss_does_not_reach_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    smt, other, optimiser = make()
    optimiser.step(other(smt(torch.randn(4, 3))).mean())  # both have moments now
    before = other.weight.detach().clone()
    optimiser.step(smt(torch.randn(4, 3)).square().mean())
    assert torch.equal(other.weight, before)


def test_a_leaf_gathers_its_gradient_and_is_not_moved() -> None:
    smt, _, optimiser = make()
    leaf = torch.ones(3, requires_grad=True)
    elsewhere = torch.ones(3, requires_grad=True)
    optimiser.step((smt(leaf) * elsewhere).sum(), leaf)
    assert leaf.grad is not None
    assert torch.equal(leaf.detach(), torch.ones(3))
    assert elsewhere.grad is None  # nothing but parameters and the named leaves


def test_the_estimators_rate_follows_the_schedule() -> None:
    _, _, optimiser = make(lr_estimator=0.4)
    optimiser.settings.warmup = 0.5
    optimiser.begin(0)
    assert 0 < optimiser.estimator_rate < 0.1
    optimiser.begin(50)
    assert optimiser.estimator_rate == pytest.approx(0.4)


def test_moments_survive_a_checkpoint() -> None:
    x = torch.randn(4, 3)
    smt, other, optimiser = make()
    for _ in range(3):
        optimiser.step(other(smt(x)).square().mean())
    twin_smt, twin_other, resumed = make()
    twin_smt.load_state_dict(smt.state_dict())
    twin_other.load_state_dict(other.state_dict())
    resumed.load({k: v.clone() for k, v in optimiser.state().items()})
    for a, b, o in ((smt, other, optimiser), (twin_smt, twin_other, resumed)):
        o.step(b(a(x)).square().mean())
    assert torch.equal(smt.weight, twin_smt.weight)
    assert torch.equal(other.bias, twin_other.bias)


def test_moments_come_back_in_the_memory_format_of_their_parameter() -> None:
    """A fused Adam goes through weights and moments side by side in memory; a checkpoint stores them row by row."""
    images = torch.randn(2, 3, 8, 8)

    def trained(resumed_after: int | None) -> torch.Tensor:
        torch.manual_seed(0)
        convolution = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        groups = {"backbone": list(convolution.parameters())}
        settings = TrainSettings(lr_backbone=0.1, warmup=0.0, schedule="constant")
        optimiser = AdamOptimiser(groups, settings, 100, Processes(), torch.device("cpu"))
        for step in range(6):
            if step == resumed_after:
                stored = {key: value.contiguous() for key, value in optimiser.state().items()}
                optimiser = AdamOptimiser(groups, settings, 100, Processes(), torch.device("cpu"))
                optimiser.load(stored)
            optimiser.begin(step)
            optimiser.step(convolution(images).square().mean())
        return convolution.weight.detach()

    assert torch.equal(trained(None), trained(3))
