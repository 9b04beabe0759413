"""Thresholds: from known positives and expected shares, and into the model folder."""

from pathlib import Path

import numpy as np
import pytest

from scob.inference.model import Scob
from scob.inference.thresholds import best_threshold, choose_thresholds, cross_validated_f1, expected_labels, thresholds
from scob.labels import Labels
from scob.training.estimates import load_estimates, save_estimates
from scob.training.finished_run import RunImages


def known_of(values: np.ndarray, estimates: np.ndarray | None = None, k: float = 1.5) -> RunImages:
    labels = Labels(tuple(f"c{i}" for i in range(values.shape[1])), tuple(f"i{i}" for i in range(len(values))), values)
    return RunImages(None, labels, np.zeros(len(values), bool), estimates, k)  # type: ignore[arg-type]


def test_the_threshold_is_the_best_of_all_candidates() -> None:
    random = np.random.default_rng(0)
    positive = random.beta(5, 2, 30).astype(np.float32)
    everything = np.concatenate((positive, random.beta(2, 5, 200).astype(np.float32)))
    chosen, value = best_threshold(positive, everything, 0.15)

    def f1(t: float) -> float:
        return float(2 * (positive >= t).mean() * 0.15 / ((everything >= t).mean() + 0.15))

    assert value == pytest.approx(f1(chosen)) == pytest.approx(max(f1(t) for t in everything))


def test_thresholds_separate_what_can_be_separated() -> None:
    """Single positives of two classes whose scores lie apart: the threshold falls into the gap."""
    random = np.random.default_rng(1)
    truth = random.random((400, 2)) < 0.4
    scores = np.where(truth, 0.7 + 0.2 * random.random((400, 2)), 0.3 * random.random((400, 2))).astype(np.float32)
    observed = np.where(truth & (random.random((400, 2)) < 0.5), 1, 0).astype(np.int8)
    chosen = choose_thresholds(scores, known_of(observed, truth.astype(np.float32), k=0.8))
    assert all(0.3 <= t <= 0.75 for t in chosen.thresholds) and not any(chosen.pooled)


def test_a_class_with_few_positives_takes_the_common_threshold() -> None:
    scores = np.random.default_rng(2).random((50, 2)).astype(np.float32)
    values = np.zeros((50, 2), np.int8)
    values[:20, 0] = values[0, 1] = 1
    chosen = choose_thresholds(scores, known_of(values))
    assert chosen.pooled == (False, True)


def test_belief_is_scaled_to_k_and_certainty_is_not() -> None:
    values = np.array([[1, 0, 0, -1]] * 10, np.int8)
    expected = expected_labels(np.full((10, 4), 0.5, np.float32), known_of(values, np.full((10, 4), 0.5, np.float32)))
    assert (expected[:, 0] == 1).all() and (expected[:, 3] == 0).all()
    assert expected.sum(axis=1).mean() == pytest.approx(1.5)


def test_estimates_come_back_by_name(tmp_path: Path) -> None:
    values = np.array([[0.25, 0.5], [0.75, 1.0]], np.float32)
    save_estimates(tmp_path, ["a", "b"], ["x", "y"], values)
    found = load_estimates(tmp_path, ["b", "new"], ["x", "y"])
    assert found is not None and (found[0] == values[1]).all() and np.isnan(found[1]).all()
    assert load_estimates(tmp_path / "other", ["a"], ["x"]) is None


def test_the_verb_stores_thresholds_that_predict_uses(own_run: Path) -> None:
    chosen = thresholds(own_run, "cpu")
    assert all(path.is_file() for path in chosen.figures)
    model = Scob.from_pretrained(own_run, "cpu")
    assert tuple(model.card.thresholds) == chosen.thresholds
    assert f"{min(chosen.thresholds):.3f}" in (own_run / "model" / "README.md").read_text()


def test_the_reported_f1_does_not_flatter() -> None:
    """Scores that say nothing: a threshold chosen on the images it is measured on looks better than it is."""
    rng = np.random.default_rng(0)
    flattering, honest = [], []
    for _ in range(20):
        scores = rng.random(200).astype(np.float32)
        positives = np.zeros(200, dtype=bool)
        positives[:10] = True
        flattering.append(best_threshold(scores[positives], scores, 0.05)[1])
        honest.append(cross_validated_f1(scores, positives, 0.05, rng.permutation(200)))
    assert np.mean(honest) < 0.8 * np.mean(flattering)
    separable = np.concatenate((np.linspace(0.8, 0.9, 20), np.linspace(0.0, 0.2, 180))).astype(np.float32)
    assert cross_validated_f1(separable, np.arange(200) < 20, 0.1, np.arange(200)) > 0.9
