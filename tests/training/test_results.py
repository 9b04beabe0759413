"""What a run measures, and what it writes at its end."""

import json
from typing import Any

import numpy as np

from scob.training.results import reference


def test_full_holdout_labels_are_named_where_they_are_used(run_small: Any) -> None:
    run = run_small("train.holdout=0.25", "train.holdout_labels=full", "train.epochs=1")
    curve = json.loads((run / "summary.json").read_text())["curve"]
    assert "mAP-holdout-full" in curve[0]
    assert curve[0]["holdout"] == curve[0]["mAP-holdout-full"] != curve[0]["mAP-observed"]


def test_held_out_labels_count_unknown_as_absent_only_where_negatives_are_not_known() -> None:
    single = np.array([[1, 0, 0], [0, 1, 0]], np.int8)
    assert reference(single).tolist() == [[1, -1, -1], [-1, 1, -1]]
    partial = np.array([[1, -1, 0], [0, -1, -1]], np.int8)
    assert reference(partial).tolist() == partial.tolist()
    reviewed = np.array([[1, 0, -1], [0, 1, 0], [1, 0, 0]], np.int8)  # one negative somebody happened to give
    assert reference(reviewed).tolist() == [[1, -1, -1], [-1, 1, -1], [1, -1, -1]]
