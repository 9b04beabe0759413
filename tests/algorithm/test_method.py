"""What every method shares: its step, its parameter groups, and whether it needs pixels."""

from typing import Any

import pytest
import torch
from torch import Tensor

from scob.algorithm.method import LossMethod, Method
from support.runs import batches_of


def test_a_method_must_define_its_step_and_its_losses(experiment_of: Any) -> None:
    e = experiment_of("method=an")
    batch = next(batches_of(e, 0))
    with pytest.raises(TypeError, match="does not define a step"):
        Method.step(e.method, batch, e.optimiser)
    with pytest.raises(TypeError, match="does not define losses"):
        LossMethod.losses(e.method, torch.zeros(1, 1), torch.zeros(1, 1), batch)
    with pytest.raises(TypeError, match="has no head of its own"):
        Method.rebuild_head((8, 8), ((2, 2), (1, 1)), {})


class Recorder:
    """An optimiser that only remembers the loss."""

    estimator_rate = 0.1

    def step(self, loss: Tensor, *leaves: Tensor) -> None:
        self.loss = loss


def test_a_loss_method_steps_on_the_sum_of_its_terms(experiment_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    e = experiment_of("method=an")
    terms = {"one": torch.tensor(1.5, requires_grad=True), "two": torch.tensor(-4.0, requires_grad=True)}
    monkeypatch.setattr(e.method, "losses", lambda logits, observed, batch: terms)
    optimiser = Recorder()
    losses = e.method.step(next(batches_of(e, 0)), optimiser)
    assert optimiser.loss.item() == -2.5 and optimiser.loss.requires_grad
    assert {name: value.item() for name, value in losses.items()} == {"one": 1.5, "two": -4.0}
    assert not any(value.requires_grad for value in losses.values())


@pytest.mark.parametrize(("head", "group"), [("smt", "smt"), ("cnn", "cnn"), ("large-cnn", "cnn"), ("linear", "other")])
def test_every_parameter_has_one_learning_rate(experiment_of: Any, head: str, group: str) -> None:
    e = experiment_of(f"model.head={head}")
    groups = e.method.groups()
    grouped = [id(p) for parameters in groups.values() for p in parameters]
    assert len(grouped) == len(set(grouped))
    trained = {id(p) for name, p in e.method.named_parameters() if not name.startswith("target.")}
    assert set(grouped) == trained
    assert {id(p) for p in e.network.head.parameters()} <= {id(p) for p in groups[group]}


def test_pixels_are_wanted_unless_cached_features_are_enough(experiment_of: Any) -> None:
    assert experiment_of("method=role").method.wants_images
    assert not experiment_of("method=role", "train.feature_cache=host").method.wants_images
    assert experiment_of("train.feature_cache=host").method.wants_images  # the strong view is never cached


def test_a_problem_counts_its_images_without_padding(experiment_of: Any) -> None:
    e = experiment_of()
    problem = e.method.problem
    assert problem.images == len(e.data.train) == len(problem.observed) - 1
    assert (problem.observed[-1] == 0).all() and problem.device == e.processes.device
