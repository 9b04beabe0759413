"""The moving average of the weights is evaluated and kept; training does not notice it."""

from typing import Any

import pytest
import torch
from torch import nn

from scob.training.averaging import Average
from support.runs import logged, same, trained_weights


def test_averaged_weights_are_what_is_kept(run_small: Any) -> None:
    plain, averaged = run_small("train.ema=0"), run_small("train.ema=0.9")
    assert not same(trained_weights(plain), trained_weights(averaged))
    assert logged(plain, "class") == logged(averaged, "class")  # training does not notice


def test_it_is_the_exponential_moving_average() -> None:
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(1.0)
    average = Average(network, 0.5)
    expected = 1.0
    for step, value in enumerate((3.0, -2.0, 5.0, 0.5)):
        network.weight.data.fill_(value)
        average.follow(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert average.averages[0].item() == pytest.approx(expected)
        assert network.weight.item() == value


def test_averaged_weights_are_in_use_only_inside_the_context() -> None:
    network = nn.Linear(2, 2)
    average = Average(network, 0.9)
    begun = network.weight.detach().clone()
    network.weight.data.add_(1)
    with pytest.raises(ZeroDivisionError), average.used():
        assert torch.equal(network.weight, begun)
        raise ZeroDivisionError
    assert torch.equal(network.weight, begun + 1)


def test_frozen_weights_are_not_averaged_and_without_decay_nothing_is() -> None:
    network = nn.Linear(2, 2)
    network.bias.requires_grad_(False)
    assert len(Average(network, 0.9).averages) == 1
    without = Average(network, 0.0)
    network.weight.data.add_(1)
    without.follow(3)
    current = network.weight.detach().clone()
    with without.used():
        assert torch.equal(network.weight, current)
    assert without.averages == []
