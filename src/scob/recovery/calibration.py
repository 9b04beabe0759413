"""From score to probability: how many of the labels suggested with 70% are right? About 70 of a hundred.

(That holds if the observed labels were chosen at random. If they name what stands out most, fewer are right.)

A score s becomes sigmoid(logit(s) / T + b). T and b come from what a run knows already, without further labels:

- b: the probabilities of an image's unknown labels add up to the positives it is expected to have beyond those observed
  (`labels.k`).
- T: makes the observed labels of held-out images as likely as possible, if each was chosen at random from the labels
  that its image shows (methods/chosen_label.py). Several observed labels of one image count as their mean; where most
  labels are known, T is up to a fifth too large. Training images cannot be used: the network has memorised their
  labels. With too few held-out images, T is 1.

Images that the network was trained on get a b of their own: their unknown labels have lower scores than those of other
images. Both maps are the same for all classes; a b for each class made the ranking worse, and so did the mean of
score and label estimate in place of the score (docs/oracles.md).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from scob.inference.scoring import Floats
from scob.labels import ABSENT, PRESENT, UNKNOWN
from scob.methods.chosen_label import log_chosen, quadrature
from scob.training.finished_run import RunImages

ENOUGH = 30  # images with an unknown label (and, for T, an observed positive)
MOST = 160_000  # labels of such images: more would tell T no better, and take long
IMPOSSIBLE = 100.0  # the log-odds against a label that was observed to be absent
TEMPERATURES: list[float] = sorted(np.geomspace(0.25, 4.0, 65).tolist(), key=lambda t: abs(np.log(t)))  # 1 first
FULLEST = 0.95  # of all labels: how many can be expected to be present
LEAST = 0.05  # of k: the unknown positives that an image is expected to have, at least
Logits = NDArray[np.float64]


@dataclass(frozen=True)
class Calibrated:
    """The map from score to probability: T, and b for images that were trained on and for others."""

    temperature: float = 1.0
    trained_on: float = 0.0
    others: float = 0.0

    def probability(self, scores: Floats, trained_on: NDArray[np.bool_] | None) -> Floats:
        """Scores (N, L) as probabilities (N, L); `trained_on` (N,), None: no image was."""
        shift = self.others if trained_on is None else np.where(trained_on, self.trained_on, self.others)[:, None]
        return np.asarray(sigmoid(logit(scores) / self.temperature + shift), dtype=np.float32)


def logit(p: Floats) -> Logits:
    """Log-odds, at most those of one in a million."""
    inside = np.clip(p.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(inside / (1 - inside)), dtype=np.float64)


def sigmoid(z: Logits) -> Logits:
    """The inverse of `logit`."""
    return np.asarray(0.5 * (1 + np.tanh(z / 2)), dtype=np.float64)


def shift_to(scaled: Logits, expected: float) -> float:
    """b such that the probabilities sigmoid(scaled + b) add up to `expected`, by halving."""
    low, high = -40.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        if sigmoid(scaled + middle).sum() < expected:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def temperature_of(scores: Floats, observed: NDArray[np.int8], k: float) -> float:
    """T from the observed positives of images (N, L) that were not trained on; 1 if they are too few.

    1, too, if k is as large as the number of classes: then it says nothing about which labels are present.
    """
    rows = np.flatnonzero((observed == PRESENT).any(axis=1) & (observed == UNKNOWN).any(axis=1))
    if len(rows) < ENOUGH or k > FULLEST * observed.shape[1]:
        return 1.0
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(ENOUGH, MOST // observed.shape[1]))).astype(int)]
    seen = observed[rows]
    logits = np.where(seen == ABSENT, -IMPOSSIBLE, logit(scores[rows]))
    positive = torch.from_numpy(
        (seen == PRESENT) / (seen == PRESENT).sum(axis=1, keepdims=True)
    )  # an image counts once
    nodes = quadrature(torch.device("cpu"))

    def likelihood(temperature: float) -> float:
        scaled = logits / temperature
        shifted = torch.from_numpy(scaled + shift_to(scaled, k * len(rows))).float()
        chosen = [log_chosen(few, *nodes) for few in torch.split(shifted, 256)]  # each needs 16 numbers per label
        total = float((torch.cat(chosen) * positive).sum())
        return total if np.isfinite(total) else -np.inf

    return max(TEMPERATURES, key=likelihood)  # the first of equals


def calibrate(scores: Floats, known: RunImages) -> Calibrated:
    """The map for a run, from the scores (N, L) of its own images."""
    observed, held_out = known.observed.values, known.held_out
    unknown = observed == UNKNOWN
    if not unknown.any() or not len(observed):
        return Calibrated()
    temperature = temperature_of(scores[held_out], observed[held_out], known.k)

    def shift(rows: NDArray[np.bool_]) -> float:
        """b for the images `rows` (N,)."""
        certain = float((observed[rows] == PRESENT).sum(axis=1).mean())
        expected = max(LEAST * known.k, known.k - certain) * int(rows.sum())
        entries = logit(scores[rows][unknown[rows]]) / temperature
        return shift_to(entries, min(expected, FULLEST * len(entries)))

    everything = np.ones(len(held_out), dtype=np.bool_)

    def enough(rows: NDArray[np.bool_]) -> bool:
        return int(unknown[rows].any(axis=1).sum()) >= ENOUGH

    trained_on, others = (shift(rows if enough(rows) else everything) for rows in (~held_out, held_out))
    return Calibrated(temperature, trained_on, others)
