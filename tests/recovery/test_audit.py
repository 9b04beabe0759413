"""The interval of an audit covers the truth as often as it says."""

import numpy as np
import pytest

from scob.recovery.audit import as_table, as_tree, audit, wilson
from scob.recovery.decisions import ACCEPT, REJECT, SKIP
from scob.recovery.orders import ReviewMode, in_order
from scob.recovery.suggestion import Suggestion


@pytest.mark.parametrize(("share", "size"), [(0.9, 50), (0.7, 30), (0.97, 100), (0.5, 40)])
def test_the_interval_covers_the_truth_in_simulated_reviews(share: float, size: int) -> None:
    """A hundred audits of one queue of 1,000 suggestions, as a reviewer who is right would answer them."""
    rng = np.random.default_rng(7)
    queue = [Suggestion(f"{n}", "cat" if n % 2 else "dog", 0.9, 0.9) for n in range(1000)]
    right = {(s.image, s.label): bool(rng.random() < share) for s in queue}
    truths = {
        name: np.mean([right[s.image, s.label] for s in queue if name in ("", s.label)]) for name in ("", "cat", "dog")
    }
    covered = dict.fromkeys(truths, 0)
    for seed in range(100):
        sample = in_order(queue, ReviewMode("audit", size, seed=seed))
        answers = {(s.image, s.label): ACCEPT if right[s.image, s.label] else REJECT for s in sample}
        for row in audit(queue, sample, answers):
            low, high = row.interval
            covered[row.label] += low <= truths[row.label] <= high
    assert min(covered.values()) >= 90, covered


def test_wilson_is_honest_at_the_ends() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(10, 10) == (pytest.approx(0.7225, abs=1e-3), 1.0)
    assert wilson(0, 10) == (0.0, pytest.approx(0.2775, abs=1e-3))
    assert wilson(8, 10) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))


def test_skipped_suggestions_do_not_count() -> None:
    queue = [Suggestion(f"{n}", "cat", 0.9, 0.9) for n in range(4)]
    rows = audit(queue, queue[:3], {("0", "cat"): ACCEPT, ("1", "cat"): REJECT, ("2", "cat"): SKIP})
    assert [(row.label, row.suggested, row.reviewed, row.right) for row in rows] == [("", 4, 2, 1), ("cat", 4, 2, 1)]
    assert as_table(rows).splitlines()[1].startswith("all,4,2,1,0.5000,")
    assert as_tree(rows)[0]["class"] == "all classes"
    assert as_tree(audit(queue, queue, {})) == []
