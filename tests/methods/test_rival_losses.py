"""Each loss with a public definition against an example worked out by hand.

Two images, three classes: p = (0.8, 0.3, 0.5) with the first label observed present, and p = (0.1, 0.6, 0.9) with the
third; the second image's first label is observed absent. Logarithms: -log 0.8 = 0.2231, -log 0.7 = 0.3567,
-log 0.5 = 0.6931, -log 0.9 = 0.1054, -log 0.4 = 0.9163, -log 0.6 = 0.5108, -log 0.3 = 1.2040, -log 0.2 = 1.6094.
"""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from scob import methods
from scob.methods.large_loss import largest
from scob.parallel import Processes

LOGITS = torch.logit(torch.tensor([[0.8, 0.3, 0.5], [0.1, 0.6, 0.9]]))
OBSERVED = torch.tensor([[1, 0, 0], [-1, 0, 1]], dtype=torch.int8)


def bare(name: str, epochs: int = 11, rows: int = 2, **settings: Any) -> Any:
    """A method without network or images, which is enough for its loss."""
    kind = methods.find(name)
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    made.settings = kind.Settings(**settings)
    made.problem = SimpleNamespace(
        k=1.5, epochs=epochs, processes=Processes(), observed=torch.cat((OBSERVED, OBSERVED[:1] * 0)), steps_per_epoch=1
    )
    return made


def value(method: Any, epoch: int = 0, observed: torch.Tensor = OBSERVED, logits: torch.Tensor = LOGITS) -> float:
    """The sum of the named terms on the two images."""
    batch = SimpleNamespace(weight=torch.full((len(logits),), 1 / len(logits)), rows=torch.arange(len(logits)))
    batch.epoch = batch.step = epoch
    return float(sum(method.losses(logits, observed, batch).values()))


def entries(*numbers: float) -> float:
    """The loss that six entries make: the mean over three classes and two images."""
    assert len(numbers) == 6
    return sum(numbers) / 6


def log(p: float) -> float:
    return -math.log(p)


def test_assume_negative() -> None:
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, 0.9163, 0.1054)
    assert value(bare("an")) == pytest.approx(by_hand, abs=1e-4)


def test_weak_assume_negative_halves_unknown_labels_of_three_classes() -> None:
    by_hand = entries(0.2231, 0.3567 / 2, 0.6931 / 2, 0.1054, 0.9163 / 2, 0.1054)
    assert value(bare("wan")) == pytest.approx(by_hand, abs=1e-4)


def test_label_smoothing() -> None:
    """0.95 of the right side and 0.05 of the other."""
    by_hand = entries(
        0.95 * 0.2231 + 0.05 * 1.6094, 0.95 * 0.3567 + 0.05 * 1.2040, 0.6931,
        0.95 * 0.1054 + 0.05 * 2.3026, 0.95 * 0.9163 + 0.05 * 0.5108, 0.95 * 0.1054 + 0.05 * 2.3026,
    )  # fmt: skip
    assert value(bare("an-ls")) == pytest.approx(by_hand, abs=1e-4)


def test_expected_positives() -> None:
    """k-hat is (1.6 + 1.6) / 2 = 1.6: ((1.6 - 1.5) / 3)^2 beside the observed labels' cross-entropy."""
    by_hand = entries(0.2231, 0, 0, 0.1054, 0, 0.1054) + (0.1 / 3) ** 2
    assert value(bare("epr")) == pytest.approx(by_hand, abs=1e-4)


def test_observed_only() -> None:
    assert value(bare("observed-only")) == pytest.approx(entries(0.2231, 0, 0, 0.1054, 0, 0.1054), abs=1e-4)


def test_full_labels() -> None:
    full = torch.tensor([[1, -1, 1], [-1, -1, 1]], dtype=torch.int8)
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, 0.9163, 0.1054)
    assert value(bare("full"), observed=full) == pytest.approx(by_hand, abs=1e-4)


def test_asymmetric_loss() -> None:
    """Negatives at p - 0.05: 0.25, 0.45, 0.05, 0.55, to the fourth power."""
    by_hand = entries(
        0.2231, 0.25**4 * log(0.75), 0.45**4 * log(0.55), 0.05**4 * log(0.95), 0.55**4 * log(0.45), 0.1054
    )
    assert value(bare("asl")) == pytest.approx(by_hand, abs=1e-4)


def test_asymmetric_loss_drops_easy_negatives() -> None:
    easy = torch.logit(torch.tensor([[0.5, 0.04, 0.01]]))
    assert value(bare("asl"), observed=OBSERVED[:1], logits=easy) == pytest.approx(0.6931 / 3, abs=1e-4)


def focal_margin(p: float) -> float:
    """Margin 1 takes a factor e off the odds."""
    odds = p / (1 - p) / math.e
    shifted = odds / (1 + odds)
    return (1 - shifted) ** 2 * log(shifted)


def test_hill() -> None:
    """Negatives: (1.5 - p) p^2."""
    by_hand = entries(focal_margin(0.8), 1.2 * 0.09, 1.0 * 0.25, 1.4 * 0.01, 0.9 * 0.36, focal_margin(0.9))
    assert value(bare("hill")) == pytest.approx(by_hand, abs=1e-4)


def test_self_paced_correction_begins_after_the_first_epoch() -> None:
    """Only p = 0.65 passes tau = 0.6: first a negative, p^2 * -log(1 - p), then a positive."""
    logits = torch.logit(torch.tensor([[0.8, 0.3, 0.65]]))
    both = focal_margin(0.8) + 0.09 * log(0.7)
    method = bare("splc")
    before = value(method, 0, OBSERVED[:1], logits)
    after = value(method, 1, OBSERVED[:1], logits)
    assert before == pytest.approx((both + 0.65**2 * log(0.35)) / 3, abs=1e-4)
    assert after == pytest.approx((both + focal_margin(0.65)) / 3, abs=1e-4)


def test_self_paced_correction_leaves_observed_negatives() -> None:
    absent = torch.tensor([[-1, -1, -1]], dtype=torch.int8)
    logits = torch.full((1, 3), 3.0)
    assert value(bare("splc"), 5, absent, logits) == pytest.approx(0.95257**2 * log(1 - 0.95257), abs=1e-3)


def entropy(p: float) -> float:
    return p * log(p) + (1 - p) * log(1 - p)


def test_entropy_maximisation() -> None:
    by_hand = entries(0.2231, -0.2 * entropy(0.3), -0.2 * entropy(0.5), 0.1054, -0.2 * entropy(0.6), 0.1054)
    assert value(bare("em")) == pytest.approx(by_hand, abs=1e-4)


def test_pseudo_labels_take_the_least_likely_unknown_entries() -> None:
    """After 5 of 10 epochs a fifth of theta = 1: of two unknown labels the lower, of one that one."""
    method = bare("em-apl", epochs=10, theta=1.0, beta=0.5)
    method.problem.observed = torch.tensor([[1, 0, 0], [-1, 0, 1], [0, 0, 0]], dtype=torch.int8)
    method.register_buffer("remembered", torch.cat((LOGITS, torch.full((1, 3), -9.0))))
    method.register_buffer("pseudo", torch.zeros(3, 3))
    method.register_buffer("decided", torch.zeros(3, 3, dtype=torch.bool))
    method.review(4)
    assert not method.decided.any()
    method.review(5)
    assert method.decided.tolist() == [[False, True, True], [False, False, False], [False, False, False]]
    cross = 0.5 * (0.3 * log(0.3) + 0.7 * log(0.7))
    even = 0.5 * log(0.5)
    by_hand = entries(0.2231, cross, even, 0.1054, -0.2 * entropy(0.6), 0.1054)
    assert value(method, 5) == pytest.approx(by_hand, abs=1e-4)
    method.remembered.fill_(-9.0)
    method.review(9)
    assert method.decided.tolist() == [[False, True, True], [False, True, False], [False, False, False]]
    assert method.pseudo[0].tolist() == pytest.approx([0, 0.3, 0.5], abs=1e-6), "what was decided before stays"
    assert method.pseudo[1, 1] < 1e-3, "what is decided now is today's prediction"


def test_largest_takes_the_share_of_the_eligible() -> None:
    cost = torch.tensor([[1.0, 5.0, 3.0], [9.0, 4.0, 2.0]])
    eligible = torch.tensor([[True, True, True], [False, True, True]])
    assert not largest(cost, eligible, 0.0).any()
    assert largest(cost, eligible, 0.4).tolist() == [[False, True, False], [False, True, False]]
    assert largest(cost, eligible, 0.21).sum() == 2, "1.05 of five is rounded up"
    assert largest(cost, eligible, 0.6).sum() == 3, "exactly three stay three"


def test_a_small_batch_still_corrects() -> None:
    """0.2 percent of three unknown labels is less than one: one is corrected all the same, that of p = 0.6."""
    method = bare("ll-cp")
    method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    value(method, 1)
    assert method.corrected.nonzero().tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("name", "suspect"), [("ll-r", 0.0), ("ll-ct", log(0.6)), ("ll-cp", log(0.6))], ids=["ll-r", "ll-ct", "ll-cp"]
)
def test_large_losses(name: str, suspect: float) -> None:
    """The largest of three unknown losses, that of p = 0.6, is rejected or corrected; not in the first epoch."""
    method = bare(name, delta=33.0)
    if name == "ll-cp":
        method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    assert value(method, 0) == pytest.approx(value(bare("an")), abs=1e-6)
    by_hand = entries(0.2231, 0.3567, 0.6931, 0.1054, suspect, 0.1054)
    assert value(method, 1) == pytest.approx(by_hand, abs=1e-4)


def test_permanent_correction_stays() -> None:
    method = bare("ll-cp", delta=33.0)
    method.register_buffer("corrected", torch.zeros(3, 3, dtype=torch.bool))
    value(method, 1)
    method.settings.delta = 0.0
    low = torch.full((2, 3), -4.0)
    value(method, 2, logits=low)
    assert method.corrected.nonzero().tolist() == [[1, 1]]


def test_generalised_robust_loss() -> None:
    """In the third of ten epochs w and b have gone 2 / 10 of their way, mu and sigma 3 / 10; q = 1 costs 1 - p."""
    method = bare(
        "gr", epochs=10, q1=1.0, q2=1.0, q3=1.0, w=(2.0, 4.0), b=(-1.0, -2.0), mu=(0.5, 0.8), sigma=(1.0, 0.5)
    )

    def unknown(p: float) -> float:
        k = 1 / (1 + math.exp(-(2.4 * p - 1.2)))
        return math.exp(-((p - 0.59) ** 2) / (2 * 0.85**2)) * (k * (1 - p) + (1 - k) * p)

    by_hand = entries(0.2, unknown(0.3), unknown(0.5), 0.1, unknown(0.6), 0.1)
    assert value(method, 2) == pytest.approx(by_hand, abs=1e-4)


def test_generalised_robust_loss_at_the_published_values() -> None:
    """The first of ten epochs: k = sigmoid(-2) = 0.1192, mu = 0.53, sigma = 1.85; -log p where observed, q2 = 0.01."""

    def unknown(p: float) -> float:
        return math.exp(-((p - 0.53) ** 2) / (2 * 1.85**2)) * (0.1192 * (1 - p**0.01) / 0.01 + 0.8808 * p)

    by_hand = entries(0.2231, unknown(0.3), unknown(0.5), 0.1, unknown(0.6), 0.1054)
    assert value(bare("gr", epochs=10)) == pytest.approx(by_hand, abs=1e-4)


def test_generalised_robust_loss_nears_cross_entropy() -> None:
    labels = torch.tensor([[1, -1, -1], [-1, -1, 1]], dtype=torch.int8)
    whole = value(bare("an"), observed=labels)
    assert value(bare("gr", q1=1e-3, q3=1e-3), observed=labels) == pytest.approx(whole, rel=2e-3)
    assert value(bare("gr", q1=0.0, q3=0.0), observed=labels) == pytest.approx(whole, abs=1e-5)


def test_partial_bce() -> None:
    """One known label of three: g(1/3) = 5.45 - 4.45 / 3; two of three: 5.45 - 4.45 * 2 / 3."""
    one, two = 5.45 - 4.45 / 3, 5.45 - 4.45 * 2 / 3
    by_hand = entries(one * 0.2231, 0, 0, two * 0.1054, 0, two * 0.1054)
    assert value(bare("partial-bce")) == pytest.approx(by_hand, abs=1e-4)


def test_partial_bce_of_all_labels_is_bce() -> None:
    labels = torch.tensor([[1, -1, -1], [-1, -1, 1]], dtype=torch.int8)
    assert value(bare("partial-bce"), observed=labels) == pytest.approx(value(bare("an")), abs=1e-6)


def test_curriculum_takes_what_it_was_sure_of() -> None:
    """Logits of 2.5 and -2.5 pass theta = 2, 1.5 does not, an observed label stays as it is."""
    method = bare("curriculum", epochs=4)
    method.register_buffer("remembered", torch.tensor([[-9.0, 2.5, 1.5], [9.0, -2.5, 0.0], [0.0, 0.0, 0.0]]))
    method.register_buffer("taken", torch.zeros(3, 3, dtype=torch.int8))
    method.review(1)
    assert method.taken.tolist() == [[0, 1, 0], [0, -1, 0], [0, 0, 0]]
    two, three = 5.45 - 4.45 * 2 / 3, 1.0
    by_hand = entries(two * 0.2231, two * 1.2040, 0, three * 0.1054, three * 0.9163, three * 0.1054)
    assert value(method, 1) == pytest.approx(by_hand, abs=1e-4)
