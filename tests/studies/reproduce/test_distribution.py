"""The distribution of predictions for unknown negatives."""

from types import SimpleNamespace

import numpy as np

from scob.studies.reproduce import variants
from scob.studies.reproduce.distribution import every_epoch, shares_of


def test_every_epoch_is_evaluated_and_nothing_else_changes():
    changed = every_epoch(variants.SCOB)
    assert changed.changes == {**variants.SCOB.changes, "train": {"evaluate_every": 1}}
    assert changed.title == variants.SCOB.title


def test_shares_are_read_from_the_log():
    records = {"distribution": [{"shares": [0.75, 0.25]}, {"shares": [1.0, 0.0]}]}
    outcome = SimpleNamespace(run=SimpleNamespace(records=records.__getitem__))
    assert np.array_equal(shares_of(outcome), [[0.75, 0.25], [1.0, 0.0]])
