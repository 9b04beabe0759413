"""The distribution of predictions for unknown negatives."""

from types import SimpleNamespace

import numpy as np

from scob.studies.reproduce import variants
from scob.studies.reproduce.distribution import every_epoch, shares_of, unknown_negative_shares


def test_every_epoch_is_evaluated_and_nothing_else_changes():
    changed = every_epoch(variants.SCOB)
    assert changed.changes == {**variants.SCOB.changes, "train": {"evaluate_every": 1}}
    assert changed.title == variants.SCOB.title


def test_shares_are_read_from_the_log():
    records = {"distribution": [{"shares": [0.75, 0.25]}, {"shares": [1.0, 0.0]}]}
    outcome = SimpleNamespace(run=SimpleNamespace(records=records.__getitem__))
    assert np.array_equal(shares_of(outcome), [[0.75, 0.25], [1.0, 0.0]])


def test_unknown_negative_shares_leave_out_positives_and_the_observed():
    scores = np.array([[0.05, 0.95, 0.3, 1.0]])
    shares = unknown_negative_shares(scores, np.array([[0, 0, -1, 0]]), np.array([[-1, 1, -1, -1]]), bins=10)
    assert shares[0] == shares[9] == 0.5 and shares.sum() == 1
