"""Thresholds: from known positives and expected shares, and into the model folder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scob.inference.model import Scob
from scob.inference.thresholds import best_threshold, choose_thresholds, expected_labels, thresholds
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


def held_out_of(values: np.ndarray, held_out: np.ndarray, estimates: np.ndarray | None = None) -> RunImages:
    return replace(known_of(values, estimates), held_out=held_out)


def test_the_reported_f1_does_not_come_from_images_that_were_trained_on() -> None:
    """Scores that know the labels of the training images by heart and say nothing about the others."""
    rng = np.random.default_rng(0)
    values = np.eye(2, dtype=np.int8)[np.arange(400) % 2]
    scores = rng.random((400, 2)).astype(np.float32)
    scores[:300] = np.where(values[:300] == 1, 0.95, 0.05) + 0.04 * scores[:300]
    chosen = choose_thresholds(scores, held_out_of(values, np.arange(400) >= 300, values.astype(np.float32)))
    assert chosen.held_out == 100 and chosen.overall_f1 < 0.75 and max(chosen.expected_f1) < 0.75
    learnt = np.where(values == 1, 0.9, 0.1).astype(np.float32)
    chosen = choose_thresholds(learnt, held_out_of(values, np.arange(400) >= 300, values.astype(np.float32)))
    assert chosen.overall_f1 > 0.95 and min(chosen.expected_f1) > 0.95


def test_a_class_with_few_held_out_positives_has_no_f1_of_its_own() -> None:
    values = np.zeros((60, 2), np.int8)
    values[:40, 0] = values[40:, 1] = 1
    held_out = np.arange(60) < 20
    chosen = choose_thresholds(np.where(values == 1, 0.9, 0.1).astype(np.float32), held_out_of(values, held_out))
    assert not np.isnan(chosen.expected_f1[0]) and np.isnan(chosen.expected_f1[1])
    none = choose_thresholds(np.where(values == 1, 0.9, 0.1).astype(np.float32), known_of(values))
    assert np.isnan(none.overall_f1) and np.isnan(none.expected_f1).all()


def test_thresholds_are_measured_on_images_that_did_not_choose_them() -> None:
    """Scores that say nothing: a threshold chosen on the images it is measured on looks better than it is."""
    rng = np.random.default_rng(0)
    flattering, honest = [], []
    for _ in range(60):
        values = np.zeros((200, 2), np.int8)
        values[:10, 0] = values[10:, 1] = 1
        scores = rng.random((200, 2)).astype(np.float32)
        flattering.append(best_threshold(scores[:10, 0], scores[:, 0], 0.05)[1])
        known = held_out_of(values, np.ones(200, bool), values.astype(np.float32))
        honest.append(choose_thresholds(scores, known).expected_f1[0])
    assert np.mean(honest) < 0.8 * np.mean(flattering)
