"""Given labels that look wrong: each is judged by a classifier that has not seen its image.

A model trained on a wrong label has learned it. So the images are divided into folds, and the label of an image is
judged by a classifier that never saw that image. The frozen backbone's features are computed once, so a fold is a
linear fit that takes seconds. docs/reviewing.md has what was measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from scob.data.progress import Progress
from scob.data.split import Images
from scob.draws import mix, seed_key
from scob.errors import UserError
from scob.inference.model import InferenceOptions, Scob
from scob.labels import PRESENT, UNKNOWN, Labels
from scob.recovery.images import files_to_show
from scob.recovery.suggestion import DOUBTFUL, Suggestion, write_queue
from scob.training.finished_run import FinishedRun

FOLDS, STEPS, DECAY = 10, 60, 3e-2
LEAST_WEIGHT = 0.02


@dataclass(frozen=True)
class DoubtfulLabels:
    """The most doubtful of `given` labels, how many of these are wrong at most, and where they were written."""

    folder: Path
    suggestions: tuple[Suggestion, ...]
    given: int
    wrong_at_most: int


@torch.no_grad()
def pooled_features(scob: Scob, images: Images, batch: int = 16, progress: Progress | None = None) -> Tensor:
    """(N, D) the backbone's features of every image: mean and maximum over the cells of both stages."""
    rows: list[Tensor] = []
    for start in range(0, len(images), batch):
        numbers = range(start, min(start + batch, len(images)))
        maps = scob.network.backbone(scob.prepare(np.stack([images.load(n, scob.size) for n in numbers])))
        pooled = [part for m in maps for part in (m.float().mean(dim=(2, 3)), m.float().amax(dim=(2, 3)))]
        rows.append(torch.cat(pooled, dim=1).cpu())
        if progress is not None:
            progress(numbers[-1] + 1, len(images))
    return torch.cat(rows)


def folds_of(labels: Labels, folds: int, seed: int = 0) -> NDArray[np.int64]:
    """(N,) the fold of each image, by its name and the seed alone."""
    return (mix(labels.keys, seed_key(seed, "folds")) % np.uint64(folds)).astype(np.int64)


def out_of_fold(features: Tensor, labels: Labels, folds: int = FOLDS, seed: int = 0) -> NDArray[np.float32]:
    """(N, L) the score of every class in every image, by linear classifiers that were not fitted to that image.

    They are fitted twice. At first, unknown labels count as absent. Those that then score nearly as high as the best
    class of their image may well be present, so they count for little the second time.
    """
    present = torch.from_numpy((labels.values == PRESENT).astype(np.float32))
    unknown = torch.from_numpy(labels.values == UNKNOWN)
    fold = torch.from_numpy(folds_of(labels, folds, seed))
    scores = _judged(features, present, torch.ones_like(present), fold)
    relative = scores / scores.amax(dim=1, keepdim=True).clamp(min=1e-9)
    weights = torch.where(unknown, (1 - relative).clamp(min=LEAST_WEIGHT), 1.0)
    return _judged(features, present, weights, fold).numpy()


def _judged(features: Tensor, present: Tensor, weights: Tensor, fold: Tensor) -> Tensor:
    """(N, L) the score of every class in every image, each fold by a fit to the others."""
    scores = torch.zeros_like(present)
    for number in np.unique(fold.numpy()):
        held = fold == int(number)
        if held.all():
            continue
        mean, std = features[~held].mean(dim=0), features[~held].std(dim=0).clamp(min=1e-6)
        seen, unseen = (features[~held] - mean) / std, (features[held] - mean) / std
        weight, bias = _fitted(seen, present[~held], weights[~held])
        scores[held] = (unseen @ weight + bias).sigmoid()
    return scores


def _fitted(features: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (D, L) and biases (L,) of a logistic regression with weight decay; an entry counts by its weight."""
    weight = torch.zeros(features.shape[1], targets.shape[1], requires_grad=True)
    share = targets.mean(dim=0).clamp(1e-3, 1 - 1e-3)
    bias = torch.logit(share).clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=STEPS, history_size=10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.binary_cross_entropy_with_logits(features @ weight + bias, targets, weights)
        value = value + DECAY * weight.square().sum() / 2
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


def judged_classes(labels: Labels) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each class with at least two given labels, and the rows that have it: one alone is not judged by any other."""
    for column in range(len(labels.classes)):
        rows = np.flatnonzero(labels.values[:, column] == PRESENT)
        if len(rows) > 1:
            yield column, rows


def doubts(scores: NDArray[np.float32], labels: Labels) -> list[tuple[int, int, float]]:
    """(row, class, doubt) of every given label, the most doubtful first.

    If people err by naming any class, the score itself tells wrong labels from right ones best; if they name frequent
    classes more often, the score divided by the class's share of all images. The doubt is in between, 1 / (1 +
    score / root of the share).
    """
    found: list[tuple[int, int, float]] = []
    for column, rows in judged_classes(labels):
        doubt = 1 / (1 + scores[rows, column] / (len(rows) / len(labels)) ** 0.5)
        found += [(int(row), column, float(value)) for row, value in zip(rows, doubt, strict=True)]
    return sorted(found, key=lambda each: -each[2])


def wrong_at_most(scores: NDArray[np.float32], labels: Labels) -> int:
    """An upper estimate of how many given labels are wrong.

    A wrong label scores like the images that do not have it: half of the wrong ones lie below the median of these. So
    there are at most about twice as many wrong labels as labels below it; a weak classifier puts right ones there too.
    """
    below = judged = 0
    for column, rows in judged_classes(labels):
        others = scores[labels.values[:, column] != PRESENT, column]
        judged += len(rows)
        if len(others):
            below += int((scores[rows, column] < np.median(others)).sum())
    return min(judged, 2 * below)


def find_doubtful(
    run: str | Path, out: Path | None = None, top: int | None = None, running: InferenceOptions = InferenceOptions()
) -> DoubtfulLabels:
    """`scob recover RUN --doubtful`: write the most doubtful of a run's given labels for review.

    Without `top`, these are as many as may be wrong at most (`wrong_at_most`). They are reviewed like suggestions:
    accept what is there, reject what is not; an import then makes it -1.
    """
    path = Path(run)
    if not (path / "config.yaml").is_file():
        raise UserError(f"{path} is not a run folder: only a run has given labels to doubt")
    scob = Scob.from_pretrained(path, running.device)
    own = FinishedRun.open(path).images
    features = pooled_features(scob, own.split.images, running.batch, running.progress)
    scores = out_of_fold(features, own.observed)
    ranked, most = doubts(scores, own.observed), wrong_at_most(scores, own.observed)
    names, classes = own.observed.images, own.observed.classes
    shown = [tuple(classes[c] for c in np.flatnonzero(line == PRESENT)) for line in own.observed.values]
    suggestions = [
        Suggestion(names[row], classes[column], float(scores[row, column]), doubt, observed=shown[row])
        for row, column, doubt in ranked[: most if top is None else top]
    ]
    folder = out or path / DOUBTFUL
    images = dict.fromkeys(s.image for s in suggestions)
    write_queue(folder, suggestions, files_to_show(folder, images, own.split), own.observed.classes)
    return DoubtfulLabels(folder, tuple(suggestions), len(ranked), most)
