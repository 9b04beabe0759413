"""The oracles: worked out by hand, and only they are told the truth."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.runs import first_batch
from support.worked_example import bare, entries, value

TRUTH = torch.tensor([[1, 1, -1], [-1, -1, 1], [0, 0, 0]], dtype=torch.int8)


def oracle(name: str, **settings: Any) -> Any:
    method = bare(name, **settings)
    method.problem.truth = TRUTH
    return method


def test_true_negatives_are_known_and_unknown_positives_left_out() -> None:
    by_hand = entries(0.2231, 0, 0.6931, 0.1054, 0.9163, 0.1054)
    assert value(oracle("oracle-negatives")) == pytest.approx(by_hand, abs=1e-4)


def test_what_the_data_set_leaves_unknown_has_no_cost() -> None:
    method = oracle("oracle-negatives")
    method.problem.truth = torch.tensor([[1, 0, -1], [-1, 0, 1], [0, 0, 0]], dtype=torch.int8)
    assert value(method) == pytest.approx(entries(0.2231, 0, 0.6931, 0.1054, 0, 0.1054), abs=1e-4)


@pytest.mark.parametrize(
    ("rest", "second", "fifth"),
    [("absent", 0.3567, 0.9163), ("left-out", 0, 0), ("positives-left-out", 0, 0.9163)],
)
def test_the_rest_is_absent_or_left_out(rest: str, second: float, fifth: float) -> None:
    """The third label of the first image (absent) is told; the two others that are unknown are the rest."""
    method = oracle("oracle-share", rest=rest)
    method.register_buffer("told", torch.tensor([[False, False, True], [True, False, True], [False] * 3]))
    by_hand = entries(0.2231, second, 0.6931, 0.1054, fifth, 0.1054)
    assert value(method) == pytest.approx(by_hand, abs=1e-4)


def test_a_positive_that_is_told_counts_as_one() -> None:
    method = oracle("oracle-share")
    method.register_buffer("told", torch.ones(3, 3, dtype=torch.bool))
    assert value(method) == pytest.approx(entries(0.2231, 1.2040, 0.6931, 0.1054, 0.9163, 0.1054), abs=1e-4)


def test_the_share_is_the_probability(experiment_of: Callable[..., Any]) -> None:
    told = {p: experiment_of("method=oracle-share", f"oracle-share.probability={p}").method.told for p in (0, 0.3, 1)}
    assert not told[0].any() and told[1].all()
    assert float(told[0.3].float().mean()) == pytest.approx(0.3, abs=0.06)


def test_only_an_oracle_gets_the_truth(experiment_of: Callable[..., Any]) -> None:
    assert experiment_of("method=role").method.problem.truth is None
    problem = experiment_of("method=oracle-negatives").method.problem
    assert problem.truth.shape == problem.observed.shape and not problem.truth[-1].any()
    seen = problem.observed != 0
    assert torch.equal(problem.truth[seen], problem.observed[seen])
    assert int((problem.observed == 1).sum()) < int((problem.truth == 1).sum())


def test_the_perfect_estimator_is_role_at_first_and_full_labels_afterwards(experiment_of: Callable[..., Any]) -> None:
    words = ("model.dropout=0", "train.warmup=0")

    def loss(method: str, epoch: int, *more: str) -> float:
        e = experiment_of(f"method={method}", *words, *more)
        e.method.train()
        e.optimiser.begin(0)
        return float(next(iter(e.method.step(first_batch(e, epoch), e.optimiser).values())))

    assert loss("oracle-estimator", 0) == pytest.approx(loss("role", 0), abs=1e-6)
    assert loss("oracle-estimator", 1) == pytest.approx(loss("full", 1), abs=1e-5)
    assert loss("oracle-estimator", 0, "oracle-estimator.before=absent") == pytest.approx(loss("an", 0), abs=1e-5)


def test_an_oracle_without_a_secret_says_so(experiment_of: Callable[..., Any]) -> None:
    (remark,) = experiment_of("method=oracle-negatives", "labels.kind=full").method.remarks()
    assert "nothing to tell" in remark
    assert experiment_of("method=oracle-negatives").method.remarks() == ()
