"""From confidence to probability, without knowing any further label."""

import numpy as np
import pytest
import torch

from scob.labels import Labels
from scob.methods.chosen_label import log_chosen
from scob.recovery import calibration as calibration_module
from scob.recovery.calibration import Calibrated, calibrate, logit, shift_to, sigmoid, temperature_of
from scob.training.finished_run import RunImages
from scob.training.metrics import calibration


def drawn(images: int, seed: int, steepness: float, offset: float, salient: float = 0.0, known: float = 0.0):
    """Labels drawn with known probabilities, one positive per image observed, and distorted confidences.

    With `salient`, labels that are more probable are more likely to be the one observed. `known` is the share of all
    labels, present and absent, that are observed besides.
    """
    random = np.random.default_rng(seed)
    logits = random.normal(-2.5, 2.0, (images, 12))
    truth = np.where(random.random(logits.shape) < sigmoid(logits), 1, -1).astype(np.int8)
    observed = np.zeros_like(truth)
    for row in range(images):
        positives = np.flatnonzero(truth[row] == 1)
        if len(positives):
            stands_out = np.exp(salient * logits[row, positives])
            observed[row, random.choice(positives, p=stands_out / stands_out.sum())] = 1
    observed = np.where(random.random(truth.shape) < known, truth, observed)
    confidence = sigmoid(logits * steepness + offset).astype(np.float32)
    return confidence, truth, observed, float((truth == 1).sum(axis=1).mean())


def run_images(observed, held_out, k) -> RunImages:
    names = tuple(f"{n}.png" for n in range(len(observed)))
    labels = Labels(tuple(f"class {c}" for c in range(observed.shape[1])), names, observed)
    return RunImages(None, labels, held_out, None, k)  # type: ignore[arg-type]


def test_the_shift_makes_probabilities_add_up() -> None:
    scaled = np.random.default_rng(0).normal(size=500)
    for expected in (5.0, 100.0, 450.0):
        assert sigmoid(scaled + shift_to(scaled, expected)).sum() == pytest.approx(expected, abs=1e-6)


def test_logit_and_sigmoid_are_inverse() -> None:
    p = np.array([0.001, 0.3, 0.9], np.float32)
    assert sigmoid(logit(p)) == pytest.approx(p, abs=1e-6)
    assert np.isfinite(logit(np.array([0.0, 1.0], np.float32))).all()


@pytest.mark.parametrize("steepness", [0.5, 1.0, 2.0])
def test_the_temperature_undoes_scores_that_are_too_flat_or_too_steep(steepness: float) -> None:
    confidence, _, observed, k = drawn(3000, 1, steepness, 0.0)
    assert temperature_of(confidence, observed, k) == pytest.approx(steepness, rel=0.15)


@pytest.mark.parametrize("known", [0.1, 0.5, 1.0])
def test_labels_that_are_known_besides_hardly_change_it(known: float) -> None:
    confidence, _, observed, k = drawn(3000, 1, 1.0, 0.0, known=known)
    assert temperature_of(confidence, observed, k) == pytest.approx(1.0, rel=0.1)


def test_labels_that_stand_out_do_not_make_it_much_too_sure() -> None:
    """T is 1 if labels are chosen at random. To give those chosen here the mean of all would take a T of 0.62."""
    confidence, _, observed, k = drawn(3000, 1, 1.0, 0.0, salient=0.5)
    assert 0.7 < temperature_of(confidence, observed, k) <= 1.0


def test_very_many_held_out_images_take_no_longer_than_enough_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence, _, observed, k = drawn(3000, 1, 2.0, 0.0)
    images = []

    def counted(logits: torch.Tensor, *nodes: torch.Tensor) -> torch.Tensor:
        images.append(len(logits))
        return log_chosen(logits, *nodes)

    monkeypatch.setattr(calibration_module, "MOST", 600 * 12)
    monkeypatch.setattr(calibration_module, "log_chosen", counted)
    assert temperature_of(confidence, observed, k) == pytest.approx(2.0, rel=0.15)
    assert sum(images) == 600 * len(calibration_module.TEMPERATURES)


def test_a_label_that_is_known_to_be_absent_was_not_chosen() -> None:
    """Whatever the scores say of it."""
    confidence, _, observed, k = drawn(3000, 1, 1.0, 0.0)
    absent = np.full((3000, 4), -1, np.int8)
    sure = np.full((3000, 4), 0.999, np.float32)
    more = temperature_of(np.hstack([confidence, sure]), np.hstack([observed, absent]), k)
    assert more == temperature_of(confidence, observed, k)


def test_what_cannot_tell_a_temperature_leaves_it_at_1() -> None:
    confidence, _, observed, k = drawn(200, 1, 0.5, 0.0)
    broken = confidence.copy()
    broken[np.flatnonzero((observed == 1).any(axis=1))[0], 0] = np.nan
    assert temperature_of(broken, observed, k) == pytest.approx(1.0)
    flat = np.full_like(confidence, 0.3)
    assert temperature_of(flat, observed, k) == pytest.approx(1.0)


@pytest.mark.parametrize("k", [12.0, 20.0])
def test_as_many_labels_expected_as_there_are_classes_leave_it_at_1(k: float) -> None:
    confidence, _, observed, _ = drawn(300, 1, 0.5, 0.0)
    assert temperature_of(confidence, observed, k) == 1.0


def test_too_few_held_out_positives_leave_the_temperature_at_1() -> None:
    confidence, _, observed, k = drawn(25, 1, 0.5, 0.0)
    assert temperature_of(confidence, observed, k) == 1.0


@pytest.mark.parametrize(("steepness", "offset"), [(0.5, 0.3), (0.6, -1.0), (1.8, 1.0)])
def test_calibrated_confidences_are_probabilities(steepness: float, offset: float) -> None:
    """No true label is used, and yet the error falls below a quarter of what it was."""
    confidence, truth, observed, k = drawn(2500, 2, steepness, offset)
    held_out = np.arange(2500) < 600
    known = run_images(observed, held_out, k)
    probability = calibrate(confidence, known).probability(confidence, ~held_out)
    unseen = np.where(observed == 0, truth, 0)
    before, after = calibration(confidence, unseen).error, calibration(probability, unseen).error
    assert after < min(2.0, before / 4), (before, after)
    assert (np.argsort(probability[0]) == np.argsort(confidence[0])).all(), "the ranking of an image stays"


def test_images_that_were_trained_on_have_a_shift_of_their_own() -> None:
    scores, _, observed, k = drawn(1000, 3, 1.0, 0.0)
    held_out = np.arange(1000) < 300
    scores = np.where(held_out[:, None], scores, sigmoid(logit(scores) - 2.0)).astype(np.float32)
    found = calibrate(scores, run_images(observed, held_out, k))
    assert found.trained_on > found.others + 1
    probability = found.probability(scores, ~held_out)
    unknown = observed == 0
    for rows in (held_out, ~held_out):
        expected = k - (observed[rows] == 1).sum(axis=1).mean()
        assert (probability[rows] * unknown[rows]).sum(axis=1).mean() == pytest.approx(expected, rel=0.01)


def test_without_unknown_labels_nothing_changes() -> None:
    observed = np.ones((4, 3), np.int8)
    confidence = np.full((4, 3), 0.7, np.float32)
    assert calibrate(confidence, run_images(observed, np.zeros(4, bool), 3.0)) == Calibrated()
    assert Calibrated().probability(confidence, None) == pytest.approx(confidence, abs=1e-6)


def test_held_out_images_that_say_nothing_leave_new_images_the_shift_of_all() -> None:
    """Too few of them, or none with an unknown label."""
    scores, _, observed, k = drawn(300, 4, 1.0, 0.0)
    held_out = np.arange(300) < 100
    everything = calibrate(scores, run_images(observed, np.zeros(300, bool), k)).others
    assert calibrate(scores, run_images(observed, np.arange(300) < 20, k)).others == everything
    known = np.where(held_out[:, None] & (observed == 0), -1, observed).astype(np.int8)
    assert -10 < calibrate(scores, run_images(known, held_out, k)).others < 10
