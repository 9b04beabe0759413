"""How well scores agree with a reference. Pure functions; every rate is in percent, as papers print it.

Scores are (N, L) numbers in [0, 1]; a reference is (N, L) with +1 present, -1 absent, 0 unknown. An unknown
entry is left out of every count. Both may be tensors on any device or NumPy arrays.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN

Array = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Rates:
    """Precision, recall and F1 of decisions: over all entries together (O) and as means over classes (C).

    OP is 0 if nothing was predicted; OR is NaN if there is nothing to find. CP and CR are means over the classes
    with a known positive; if such a class is never predicted, its precision is 0. OF1 and CF1 are the harmonic means
    of the two rates before them, as in the paper.
    """

    OP: float
    OR: float
    OF1: float
    CP: float
    CR: float
    CF1: float


@dataclass(frozen=True)
class Detection:
    """Precision, recall and F1 of one yes-or-no question, with the counts behind them."""

    precision: float
    recall: float
    f1: float
    true_positives: int
    false_positives: int
    false_negatives: int


@dataclass(frozen=True)
class Recovery:
    """How well missing labels were recovered: over entries that were unknown in training and are known in truth."""

    average_precision: float
    precision: float
    recall: float
    threshold: float | tuple[float, ...]
    entries: int
    positives: int


@dataclass(frozen=True)
class Calibration:
    """Per bin of predicted probability: its mean, the share of positives (both in [0, 1]), and the count."""

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error, in percent."""
        filled = self.counts > 0
        if not filled.any():
            return math.nan
        gaps = np.abs(self.predicted[filled] - self.observed[filled])
        return 100 * float(np.average(gaps, weights=self.counts[filled]))


@dataclass(frozen=True)
class Evaluation:
    """Everything `scob evaluate` reports about one model on one split."""

    mAP: float
    per_class: dict[str, float | None]
    undefined: tuple[str, ...]
    at_threshold: Rates
    top_3: Rates
    threshold: float | tuple[float, ...]
    images: int
    known: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; an undefined rate is null."""
        tree: dict[str, Any] = null_for_nan(asdict(self))
        return tree


def average_precision(scores: Array, reference: Array) -> NDArray[np.float64]:
    """Average precision of each class, (L,); NaN for one without a known positive or a known negative."""
    s, r = checked(scores, reference)
    result = np.full(s.shape[1], np.nan)
    columns = ((r == PRESENT).any(dim=0) & (r == ABSENT).any(dim=0)).nonzero()[:, 0]
    if len(columns):
        # torchmetrics returns a number even for all-positive and empty classes, so it gets only the others.
        from torchmetrics.functional.classification import multilabel_average_precision

        values = multilabel_average_precision(
            s[:, columns],
            torch.where(r == UNKNOWN, -1, (r == PRESENT).long())[:, columns],
            num_labels=len(columns),
            average=None,
            ignore_index=-1,
            validate_args=False,
        )
        result[columns.cpu().numpy()] = 100 * values.double().cpu().numpy()
    return result


def mean_average_precision(scores: Array, reference: Array) -> float:
    """mAP over the classes whose AP is defined; NaN if there is none."""
    return _mean_of_defined(average_precision(scores, reference))


def threshold_metrics(scores: Array, reference: Array, threshold: ArrayLike | Tensor = 0.5) -> Rates:
    """Rates of the decision `score >= threshold`, for one threshold or one per class (L,)."""
    s, r = checked(scores, reference)
    return _rates(s >= _threshold(threshold, s), r)


def top_k_metrics(scores: Array, reference: Array, k: int = 3, threshold: ArrayLike | Tensor | None = None) -> Rates:
    """Rates when each image is given its k best-scored classes (with `threshold`: those that reach it).

    Ranks are over all classes, known or not; of equal scores the earlier class wins.
    """
    s, r = checked(scores, reference)
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    best = torch.argsort(s, dim=1, descending=True, stable=True)[:, :k]
    predicted = torch.zeros_like(s, dtype=torch.bool).scatter_(1, best, True)
    if threshold is not None:
        predicted &= s >= _threshold(threshold, s)
    return _rates(predicted, r)


def mask_metrics(predicted: Array, truth: Array, void: Array | None = None) -> Detection:
    """Precision, recall and F1 of CAM masks against segmentation: (N, h, w) booleans, over all cells not void."""
    p, t = _tensor(predicted).bool(), _tensor(truth).bool()
    ignored = torch.zeros_like(t) if void is None else _tensor(void).bool()
    if not p.shape == t.shape == ignored.shape:
        raise ValueError(f"masks differ in shape: {tuple(p.shape)}, {tuple(t.shape)} and {tuple(ignored.shape)}")
    known = ~ignored.to(p.device)
    t = t.to(p.device)
    return detection_of((p & t & known).sum(), (p & ~t & known).sum(), (~p & t & known).sum())


def recovery_metrics(
    scores: Array, observed: Array, truth: Array, threshold: float | Sequence[float] = 0.5
) -> Recovery:
    """Scores of the training images (N, L) against the true labels that training did not see.

    Average precision is that of one ranked list of all (image, class) pairs, as `scob recover` writes it.
    """
    s, t = checked(scores, truth)
    _, seen = checked(scores, observed)
    missing = (seen == UNKNOWN) & (t != UNKNOWN)
    reached = (s >= _threshold(threshold, s))[missing]
    s, t = s[missing], t[missing]
    detection = detection_of(*_counts(reached, t))
    return Recovery(
        float(average_precision(s[:, None], t[:, None])[0]), detection.precision, detection.recall,
        threshold=float(threshold) if isinstance(threshold, (int, float)) else tuple(map(float, threshold)),
        entries=len(t),
        positives=int((t == PRESENT).sum()),
    )  # fmt: skip


def precision_recall_curve(scores: Array, reference: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Precision and recall at every distinct score of one class, (N,) and (N,), from the highest score down.

    Raises ValueError for a class without a known positive.
    """
    s, r = checked(_tensor(scores)[:, None], _tensor(reference)[:, None])
    s, r = s[r != UNKNOWN], r[r != UNKNOWN]
    if not bool((r == PRESENT).any()):
        raise ValueError("a class without a known positive has no precision-recall curve")
    from torchmetrics.functional.classification import binary_precision_recall_curve

    precision, recall, _ = binary_precision_recall_curve(s, (r == PRESENT).long(), validate_args=False)
    # torchmetrics appends the point (recall 0, precision 1), which no threshold reaches.
    ends = precision[:-1].flip(0), recall[:-1].flip(0)
    return 100 * ends[0].double().cpu().numpy(), 100 * ends[1].double().cpu().numpy()


def calibration(scores: Array, reference: Array, bins: int = 10) -> Calibration:
    """Known entries gathered in `bins` equal bins of predicted probability."""
    s, r = checked(scores, reference)
    p = s[r != UNKNOWN].double()
    positive = (r[r != UNKNOWN] == PRESENT).double()
    bin_of = (p * bins).long().clamp(max=bins - 1)
    counts = torch.bincount(bin_of, minlength=bins)
    divisor = counts.clamp(min=1)
    predicted = torch.bincount(bin_of, p, minlength=bins) / divisor
    observed = torch.bincount(bin_of, positive, minlength=bins) / divisor
    return Calibration(predicted.cpu().numpy(), observed.cpu().numpy(), counts.cpu().numpy())


def evaluate_scores(
    scores: Array, reference: Array, classes: Sequence[str], threshold: float | Sequence[float] = 0.5
) -> Evaluation:
    """Average precision and rates of one model on one split."""
    s, r = checked(scores, reference)
    if len(classes) != s.shape[1]:
        raise ValueError(f"there are {len(classes)} class names for {s.shape[1]} columns of scores")
    ap = average_precision(s, r)
    per_class = {name: None if math.isnan(value) else float(value) for name, value in zip(classes, ap, strict=True)}
    return Evaluation(
        mAP=_mean_of_defined(ap),
        per_class=per_class,
        undefined=tuple(name for name, value in per_class.items() if value is None),
        at_threshold=threshold_metrics(s, r, threshold),
        top_3=top_k_metrics(s, r, 3),
        threshold=float(threshold) if isinstance(threshold, (int, float)) else tuple(map(float, threshold)),
        images=s.shape[0],
        known=int((r != UNKNOWN).sum()),
    )


def _tensor(values: Array) -> Tensor:
    return values.detach() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))


def checked(scores: Array, reference: Array) -> tuple[Tensor, Tensor]:
    """Scores and reference as tensors on the scores' device; an error if shapes or values are impossible."""
    s = _tensor(scores)
    r = _tensor(reference).to(s.device)
    if s.ndim != 2 or s.shape != r.shape:
        raise ValueError(f"scores have shape {tuple(s.shape)} and the reference {tuple(r.shape)}: both must be (N, L)")
    s = s if s.dtype == torch.float64 else s.float()
    if s.numel():
        if bool(s.isnan().any()):
            raise UserError("the scores contain NaN: the model has diverged; train it again with a lower learning rate")
        if s.min() < 0 or s.max() > 1:
            raise ValueError("scores must be in [0, 1]: take the sigmoid of logits first")
        if r.min() < ABSENT or r.max() > PRESENT:
            raise ValueError("a reference label is neither +1 (present), -1 (absent) nor 0 (unknown)")
    return s, r.to(torch.int8)


def _threshold(threshold: ArrayLike | Tensor, scores: Tensor) -> Tensor:
    values = torch.as_tensor(threshold, dtype=scores.dtype, device=scores.device)
    if values.ndim and values.shape != scores.shape[1:]:
        raise ValueError(f"there are {values.numel()} thresholds for {scores.shape[1]} classes")
    return values


def _counts(predicted: Tensor, reference: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """True positives, false positives and false negatives, summed over the first dimension."""
    present, absent = reference == PRESENT, reference == ABSENT
    return (predicted & present).sum(0), (predicted & absent).sum(0), (~predicted & present).sum(0)


def _rates(predicted: Tensor, reference: Tensor) -> Rates:
    tp, fp, fn = (count.double() for count in _counts(predicted, reference))
    overall = detection_of(tp.sum(), fp.sum(), fn.sum())
    counted = tp + fn > 0
    cp = cr = math.nan
    if bool(counted.any()):
        cp = 100 * float((tp / (tp + fp).clamp(min=1))[counted].mean())
        cr = 100 * float((tp / (tp + fn))[counted].mean())
    return Rates(overall.precision, overall.recall, overall.f1, cp, cr, _harmonic(cp, cr))


def detection_of(tp: Tensor | int, fp: Tensor | int, fn: Tensor | int) -> Detection:
    """Precision, recall and F1 from counts of true positives, false positives and false negatives."""
    hits, wrong, missed = int(tp), int(fp), int(fn)
    precision = 100 * hits / max(1, hits + wrong)
    recall = 100 * hits / (hits + missed) if hits + missed else math.nan
    return Detection(precision, recall, _harmonic(precision, recall), hits, wrong, missed)


def _harmonic(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a + b else 0.0  # NaN stays NaN


def _mean_of_defined(values: NDArray[np.float64]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


def null_for_nan(tree: Any) -> Any:
    """Nested dictionaries and lists for JSON, which has no NaN."""
    if isinstance(tree, dict):
        return {key: null_for_nan(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [null_for_nan(value) for value in tree]
    return None if isinstance(tree, float) and math.isnan(tree) else tree
