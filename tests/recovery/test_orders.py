"""Orders of review: each suggestion once, the least sure first in turns, and a fair sample."""

import pytest

from scob.errors import UserError
from scob.recovery.orders import ReviewMode, at_random, by_doubt, in_order
from scob.recovery.suggestion import Suggestion

QUEUE = [Suggestion(f"{n}", "cat" if n % 3 else "dog", 0.9, 0.95 - n / 100) for n in range(60)]


def test_the_file_s_own_order_is_the_most_confident_first() -> None:
    assert in_order(QUEUE, ReviewMode()) == QUEUE


def test_the_least_sure_come_first_and_classes_take_turns() -> None:
    order = by_doubt(QUEUE)
    assert sorted(s.image for s in order) == sorted(s.image for s in QUEUE)
    assert {s.label for s in order[:2]} == {"cat", "dog"} == {s.label for s in order[2:4]}
    cats = [abs(s.confidence - 0.5) for s in order if s.label == "cat"]
    assert cats == sorted(cats)


def test_an_audit_is_a_random_sample_that_grows() -> None:
    ten, twenty = (in_order(QUEUE, ReviewMode("audit", size)) for size in (10, 20))
    assert twenty[:10] == ten and at_random(QUEUE[::-1]) == at_random(QUEUE)
    assert at_random(QUEUE, 1) != at_random(QUEUE, 0)
    firsts = [at_random(QUEUE, seed)[0].image for seed in range(300)]
    assert len(set(firsts)) > 50


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(UserError, match="no order 'best'; the orders are confident, informative, audit"):
        ReviewMode("best")
    with pytest.raises(UserError, match="at least one suggestion"):
        ReviewMode("audit", 0)
