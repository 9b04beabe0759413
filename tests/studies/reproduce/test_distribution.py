"""The distribution of predictions for unknown true negatives."""

import numpy as np

from scob.studies.reproduce.distribution import unknown_negative_shares


def test_unknown_negative_shares_leave_out_positives_and_the_observed():
    scores = np.array([[0.05, 0.95, 0.3, 1.0]])
    shares = unknown_negative_shares(scores, np.array([[0, 0, -1, 0]]), np.array([[-1, 1, -1, -1]]), bins=10)
    assert shares[0] == shares[9] == 0.5 and shares.sum() == 1
