"""Metrics against scikit-learn and against simple loops."""

import json
import math
import time
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from scob.errors import UserError
from scob.training.metrics import (
    average_precision,
    calibration,
    evaluate_scores,
    mask_metrics,
    mean_average_precision,
    precision_recall_curve,
    recovery_metrics,
    threshold_metrics,
    top_k_metrics,
)


@st.composite
def scored(draw, coarse=None):
    """Scores and a reference of any small size; with `coarse` scores most of them are tied."""
    images, classes = draw(st.integers(1, 40)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = random.random((images, classes)).astype(draw(st.sampled_from([np.float32, np.float64])))
    levels = draw(st.sampled_from([0, 1, 2, 5])) if coarse is None else coarse
    if levels:
        scores = (np.round(scores * levels) / levels).astype(scores.dtype)
    weights = draw(st.sampled_from([(1, 0, 0), (0, 0, 1), (0, 1, 0), (1, 1, 1), (8, 1, 1), (0.5, 0, 0.5), (1, 8, 1)]))
    reference = random.choice([-1, 0, 1], size=(images, classes), p=np.array(weights) / sum(weights))
    return scores, reference.astype(np.int8)


def naive_ap(scores, reference):
    """The area as a sum over distinct scores: precision there, times the recall gained there."""
    pairs = [(float(s), int(r)) for s, r in zip(scores, reference, strict=True) if r != 0]
    positives = sum(r == 1 for _, r in pairs)
    if positives in (0, len(pairs)):
        return math.nan
    area, before = 0.0, 0.0
    for level in sorted({s for s, _ in pairs}, reverse=True):
        above = [r for s, r in pairs if s >= level]
        hits = sum(r == 1 for r in above)
        area += (hits / positives - before) * hits / len(above)
        before = hits / positives
    return 100 * area


def sklearn_ap(scores, reference):
    known = reference != 0
    s, r = scores[known], reference[known] == 1
    if not r.any() or r.all():
        return math.nan
    return 100 * average_precision_score(r, s)


@settings(max_examples=120, deadline=None)
@given(scored())
def test_average_precision_is_that_of_scikit_learn_and_of_a_loop(case):
    scores, reference = case
    ours = average_precision(scores, reference)
    for column in range(scores.shape[1]):
        s, r = scores[:, column], reference[:, column]
        np.testing.assert_allclose(ours[column] / 100, sklearn_ap(s, r) / 100, atol=1e-6, rtol=0)
        np.testing.assert_allclose(ours[column] / 100, naive_ap(s, r) / 100, atol=1e-6, rtol=0)


@pytest.mark.parametrize("positive_share", [0.001, 0.04, 0.6])
def test_average_precision_holds_to_a_millionth_on_many_images(positive_share):
    random = np.random.default_rng(3)
    truth = random.random((40_000, 4)) < positive_share
    scores = np.round(np.clip(0.3 * truth + 0.7 * random.random(truth.shape), 0, 1), 3).astype(np.float32)
    expected = [average_precision_score(truth[:, c], scores[:, c]) for c in range(4)]
    np.testing.assert_allclose(average_precision(scores, truth * 2 - 1) / 100, expected, atol=1e-6, rtol=0)


@settings(max_examples=80, deadline=None)
@given(scored(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_threshold_rates_are_those_of_scikit_learn_and_of_a_loop(case, threshold):
    scores, reference = case
    ours = threshold_metrics(scores, reference, threshold)
    precisions, recalls = [], []
    for column in range(scores.shape[1]):
        known = reference[:, column] != 0
        truth, predicted = reference[known, column] == 1, scores[known, column] >= np.float32(threshold)
        if truth.any():
            p, r, _, _ = precision_recall_fscore_support(truth, predicted, average="binary", zero_division=0)
            precisions.append(p)
            recalls.append(r)
    hits = wrong = missed = 0
    for s, r in zip(scores.ravel(), reference.ravel(), strict=True):
        hits += r == 1 and s >= threshold
        wrong += r == -1 and s >= threshold
        missed += r == 1 and s < threshold
    expected_or = 100 * hits / (hits + missed) if hits + missed else math.nan
    expected_cp = 100 * np.mean(precisions) if precisions else math.nan
    expected_cr = 100 * np.mean(recalls) if recalls else math.nan
    expected = [100 * hits / (hits + wrong) if hits + wrong else 0.0, expected_or, expected_cp, expected_cr]
    np.testing.assert_allclose([ours.OP, ours.OR, ours.CP, ours.CR], expected, atol=1e-6)
    for f1, (p, r) in ((ours.OF1, expected[:2]), (ours.CF1, expected[2:])):
        harmonic = math.nan if math.isnan(r) else (2 * p * r / (p + r) if p + r else 0.0)
        np.testing.assert_allclose(f1, harmonic, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(scored(), st.integers(1, 7))
def test_top_k_is_a_threshold_on_ranks(case, k):
    scores, reference = case
    chosen = np.zeros(scores.shape, dtype=np.float32)
    for row, line in enumerate(scores):
        for column in sorted(range(len(line)), key=lambda c, line=line: (-line[c], c))[:k]:
            chosen[row, column] = 1
    ours, expected = top_k_metrics(scores, reference, k), threshold_metrics(chosen, reference, 0.5)
    np.testing.assert_equal(asdict(ours), asdict(expected))


def test_top_k_with_a_threshold_keeps_what_reaches_it():
    scores, reference = np.array([[0.9, 0.6, 0.2, 0.1]]), np.array([[1, -1, -1, 1]])
    plain, cut = (top_k_metrics(scores, reference, 3, threshold=t) for t in (None, 0.5))
    assert pytest.approx(100 / 3) == plain.OP and cut.OP == 50


def test_one_threshold_per_class():
    scores, reference = np.array([[0.4, 0.4], [0.2, 0.8]]), np.array([[1, -1], [-1, 1]])
    assert threshold_metrics(scores, reference, [0.3, 0.5]).OF1 == 100
    assert threshold_metrics(scores, reference, 0.5).OR == 50
    with pytest.raises(ValueError, match="3 thresholds for 2 classes"):
        threshold_metrics(scores, reference, [0.1, 0.2, 0.3])


def test_unknown_entries_change_nothing():
    random = np.random.default_rng(0)
    scores, reference = random.random((50, 3)), random.choice([-1, 1], size=(50, 3))
    more_scores = np.concatenate([scores, random.random((30, 3))])
    more_reference = np.concatenate([reference, np.zeros((30, 3), dtype=int)])
    before, after = (evaluate_scores(*pair, "abc") for pair in ((scores, reference), (more_scores, more_reference)))
    assert before.mAP == after.mAP and before.at_threshold == after.at_threshold and before.top_3 == after.top_3
    assert (after.images, after.known) == (80, 150)


def test_empty_and_all_positive_classes_are_undefined_and_named():
    scores = np.array([[0.9, 0.9, 0.9, 0.9], [0.8, 0.1, 0.4, 0.2], [0.1, 0.7, 0.6, 0.3]])
    reference = np.array([[1, 1, -1, 0], [-1, 1, -1, 0], [-1, 0, -1, 0]])
    result = evaluate_scores(scores, reference, ["ordinary", "all positive", "empty", "unknown"])
    assert result.per_class == {"ordinary": 100.0, "all positive": None, "empty": None, "unknown": None}
    assert result.undefined == ("all positive", "empty", "unknown")
    assert result.mAP == 100.0


def test_nothing_defined_is_nan_and_null_in_json():
    result = evaluate_scores(np.array([[0.9], [0.2]]), np.array([[0], [0]]), ["cat"])
    assert math.isnan(result.mAP)
    tree = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert tree["mAP"] is None and tree["per_class"] == {"cat": None} and tree["at_threshold"]["CP"] is None


def test_a_class_that_is_never_predicted_has_precision_zero():
    scores, reference = np.array([[0.9, 0.1], [0.1, 0.2]]), np.array([[1, 1], [-1, -1]])
    rates = threshold_metrics(scores, reference)
    assert (rates.CP, rates.CR, rates.OP, rates.OR) == (50, 50, 100, 50)


def test_tensors_and_arrays_agree():
    random = np.random.default_rng(1)
    scores, reference = random.random((30, 4)).astype(np.float32), random.choice([-1, 0, 1], size=(30, 4))
    tensors = torch.tensor(scores, requires_grad=True), torch.tensor(reference)
    assert evaluate_scores(*tensors, "abcd") == evaluate_scores(scores, reference, "abcd")
    assert mean_average_precision(torch.tensor(scores).bfloat16(), reference) == pytest.approx(
        mean_average_precision(scores, reference), abs=2
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_mask_metrics_are_a_loop_over_cells(seed):
    random = np.random.default_rng(seed)
    predicted, truth, void = random.random((3, 2, 3, 4)) < 0.4
    hits = wrong = missed = 0
    for cell in np.ndindex(truth.shape):
        if not void[cell]:
            hits += predicted[cell] and truth[cell]
            wrong += predicted[cell] and not truth[cell]
            missed += truth[cell] and not predicted[cell]
    ours = mask_metrics(predicted, truth, void)
    assert (ours.true_positives, ours.false_positives, ours.false_negatives) == (hits, wrong, missed)
    if hits:
        assert ours.precision == pytest.approx(100 * hits / (hits + wrong))
        assert ours.recall == pytest.approx(100 * hits / (hits + missed))
        assert ours.f1 == pytest.approx(200 * hits / (2 * hits + wrong + missed))
    with pytest.raises(ValueError, match="differ in shape"):
        mask_metrics(predicted, truth[:1])


def test_recovery_counts_only_what_training_did_not_see():
    truth = np.array([[1, 1, -1], [1, -1, 0]])
    observed = np.array([[1, 0, 0], [0, 0, 0]])
    scores = np.array([[0.0, 0.9, 0.6], [0.4, 0.1, 1.0]])  # unknown and known in truth: .9+ .6- .4+ .1-
    ours = recovery_metrics(scores, observed, truth)
    assert (ours.entries, ours.positives) == (4, 2)
    assert ours.average_precision == pytest.approx(100 * (1 / 1 + 2 / 3) / 2, abs=1e-4)
    assert (ours.precision, ours.recall) == (50, 50)
    nothing = recovery_metrics(scores, np.where(truth == 0, 1, truth), truth)
    assert nothing.entries == 0 and math.isnan(nothing.average_precision) and math.isnan(nothing.recall)


def test_precision_recall_curve_ends_at_full_recall_and_holds_the_area():
    random = np.random.default_rng(5)
    scores, reference = np.round(random.random(60), 1), random.choice([-1, 0, 1], size=60)
    precision, recall = precision_recall_curve(scores, reference)
    assert recall[-1] == 100 and (np.diff(recall) >= 0).all()
    area = float((np.diff(recall, prepend=0) * precision).sum() / 100)
    assert area == pytest.approx(naive_ap(scores, reference), abs=1e-4)
    with pytest.raises(ValueError, match="no precision-recall curve"):
        precision_recall_curve(scores, -np.ones(60))


def test_calibration_bins():
    scores, reference = (
        np.array([[0.05], [0.15], [0.12], [1.0], [0.5]]),
        np.array([[-1], [1], [-1], [1], [0]]),
    )
    ours = calibration(scores, reference, bins=10)
    assert ours.counts.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert ours.predicted[1] == pytest.approx(0.135) and ours.observed[[0, 1, 9]].tolist() == [0, 0.5, 1]
    assert ours.error == pytest.approx(100 * (0.05 + 2 * 0.365 + 0) / 4)


def test_impossible_input_is_refused():
    good, known = np.array([[0.2, 0.8]]), np.array([[1, -1]])
    with pytest.raises(ValueError, match="sigmoid"):
        average_precision(np.array([[2.0, -1.0]]), known)
    with pytest.raises(ValueError, match="must be"):
        average_precision(good, known[:, :1])
    with pytest.raises(ValueError, match="neither"):
        average_precision(good, np.array([[1, 7]]))
    with pytest.raises(UserError, match="NaN"):
        average_precision(np.array([[0.1, np.nan]]), known)
    with pytest.raises(ValueError, match="class names"):
        evaluate_scores(good, known, ["one"])


def test_a_whole_evaluation_of_voc_size_takes_well_under_a_second():
    random = np.random.default_rng(0)
    scores, reference = random.random((2510, 20)).astype(np.float32), random.choice([-1, 1], size=(2510, 20))
    average_precision(scores[:9], reference[:9])  # so that the import of torchmetrics is not timed
    start = time.process_time()
    evaluate_scores(scores, reference, [str(c) for c in range(20)])
    assert time.process_time() - start < 1
