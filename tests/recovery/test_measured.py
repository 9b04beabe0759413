"""Recovered labels against labels that a run did not see."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from scob.recovery.measured import measure, true_labels, unseen_truth, write_measured
from scob.recovery.suggest import SuggestionLimits, recover
from scob.training.finished_run import FinishedRun
from support.review_runs import CPU
from support.small_model import Small

TRUTH = np.array([[1, 1, -1], [1, -1, 0]], np.int8)
OBSERVED = np.array([[1, 0, 0], [0, 0, 0]], np.int8)
SCORES = np.array([[0.0, 0.9, 0.6], [0.4, 0.1, 1.0]], np.float32)  # unseen and known: .9+ .6- .4+ .1-
PROBABILITY = np.array([[0.0, 0.8, 0.3], [0.5, 0.1, 1.0]], np.float32)


def test_only_labels_that_were_not_seen_count() -> None:
    ours = measure(SCORES, PROBABILITY, OBSERVED, TRUTH, [0.3, 0.5, 0.5])
    assert ours is not None and (ours.entries, ours.positives) == (4, 2)
    assert ours.average_precision == pytest.approx(100)  # by probability: .8+ .5+ .3- .1-
    assert (ours.precision, ours.recall) == (pytest.approx(200 / 3), 100)  # .9+ .6- and, at 0.3, .4+
    assert ours.calibration_error == pytest.approx(100 * (0.2 + 0.3 + 0.5 + 0.1) / 4, abs=1e-3)
    assert ours.uncalibrated_error == pytest.approx(100 * (0.1 + 0.6 + 0.6 + 0.1) / 4, abs=1e-3)


@pytest.mark.parametrize(
    "truth", [OBSERVED, np.where(OBSERVED == 0, 1, OBSERVED), np.where(OBSERVED == 0, -1, OBSERVED)]
)
def test_without_both_kinds_of_unseen_labels_nothing_is_measured(truth: np.ndarray) -> None:
    assert measure(SCORES, PROBABILITY, OBSERVED, truth.astype(np.int8), [0.5] * 3) is None


def test_a_file_and_a_figure(tmp_path: Path) -> None:
    ours = measure(SCORES, PROBABILITY, OBSERVED, TRUTH, [0.5] * 3)
    assert ours is not None
    written = write_measured(tmp_path, ours, SCORES, PROBABILITY, unseen_truth(OBSERVED, TRUTH))
    assert {p.name for p in written} == {"recovery.json", "reliability.png", "reliability.svg"}
    assert all(p.stat().st_size > 100 for p in written)
    assert json.loads((tmp_path / "recovery.json").read_text())["positives"] == 2


def test_a_run_on_a_labelled_data_set_is_measured(small: Small, tmp_path: Path) -> None:
    recovered = recover(small.run, out=tmp_path, selection=SuggestionLimits(None, 5), masks=False, running=CPU)
    ours = recovered.measured
    assert ours is not None and math.isfinite(ours.average_precision)
    run = FinishedRun.open(small.run)
    truth, observed = true_labels(run), run.images.observed.values
    assert ((truth == 1) >= (observed == 1)).all()
    assert ours.positives == int(((truth == 1) & (observed == 0)).sum())
    assert tmp_path / "reliability.png" in recovered.written
    ranked = [s.confidence for s in recovered.suggestions]
    assert ranked == sorted(ranked, reverse=True)
