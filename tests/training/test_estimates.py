"""The label estimator's estimates in a run folder."""

from pathlib import Path

import numpy as np
import pytest

from scob.errors import UserError
from scob.training.estimates import FILE, load_estimates, save_estimates

CLASSES = ("cat", "dog")
VALUES = np.array([[0.25, 1.0], [0.5, 0.0], [0.125, 0.75]], np.float32)


def test_estimates_come_back_by_name_and_are_nan_for_other_images(tmp_path: Path) -> None:
    assert load_estimates(tmp_path, ("a",), CLASSES) is None
    save_estimates(tmp_path, ("a", "b", "c"), CLASSES, VALUES)
    estimates = load_estimates(tmp_path, ("c", "unseen", "a"), CLASSES)
    assert estimates is not None and estimates.dtype == np.float32
    np.testing.assert_array_equal(estimates, [VALUES[2], [np.nan, np.nan], VALUES[0]])


def test_a_damaged_file_and_other_classes_are_refused_with_a_way_out(tmp_path: Path) -> None:
    save_estimates(tmp_path, ("a", "b", "c"), CLASSES, VALUES)
    with pytest.raises(
        UserError, match="has different classes from the run: remove it to rank suggestions by the scores"
    ):
        load_estimates(tmp_path, ("a",), ("dog", "cat"))
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"is damaged: .*; remove it to rank suggestions by the scores alone"):
        load_estimates(tmp_path, ("a",), CLASSES)
