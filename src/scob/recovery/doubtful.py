"""Given labels that look wrong: out-of-fold scores of each observed label, the lowest first.

A model trained on a wrong label has learned it. So the images are divided into folds, and the label of an image is
judged by a classifier that never saw that image. The frozen backbone's features are computed once, so a fold is a
linear fit that takes seconds.
"""

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
from scob.labels import PRESENT, Labels
from scob.recovery.images import files_to_show
from scob.recovery.suggestion import DOUBTFUL, Suggestion, write_queue
from scob.training.finished_run import FinishedRun

FOLDS, STEPS, DECAY = 5, 60, 3e-2


@dataclass(frozen=True)
class DoubtfulLabels:
    """The observed labels in the order of doubt, and the folder they were written to."""

    folder: Path
    suggestions: tuple[Suggestion, ...]


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
    """(N, L) the score of every class in every image, by a linear classifier that was not fitted to that image.

    Unknown labels count as absent in the fit: wrong sometimes, but equally so for right and wrong given labels.
    """
    present = torch.from_numpy((labels.values == PRESENT).astype(np.float32))
    fold = torch.from_numpy(folds_of(labels, folds, seed))
    scores = torch.zeros_like(present)
    for number in range(folds):
        held = fold == number
        if not held.any() or held.all():
            continue
        mean, std = features[~held].mean(dim=0), features[~held].std(dim=0).clamp(min=1e-6)
        seen, unseen = (features[~held] - mean) / std, (features[held] - mean) / std
        weight, bias = _fitted(seen, present[~held])
        scores[held] = (unseen @ weight + bias).sigmoid()
    return scores.numpy()


def _fitted(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (D, L) and biases (L,) of a logistic regression with weight decay."""
    weight = torch.zeros(features.shape[1], targets.shape[1], requires_grad=True)
    share = targets.mean(dim=0).clamp(1e-3, 1 - 1e-3)
    bias = torch.logit(share).clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=STEPS, history_size=10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = (
            F.binary_cross_entropy_with_logits(features @ weight + bias, targets) + DECAY * weight.square().sum() / 2
        )
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


def doubts(scores: NDArray[np.float32], labels: Labels) -> list[tuple[int, int, float]]:
    """(row, class, doubt) of every given label, the most doubtful first.

    The doubt is the mean of two shares, so that classes can be compared: that of the class's given labels that scored
    higher, and what the label's score lacks of the best score that any class has in its image.
    """
    found: list[tuple[int, int, float]] = []
    for column in range(len(labels.classes)):
        rows = np.flatnonzero(labels.values[:, column] == PRESENT)
        if len(rows) < 2:
            continue
        own = scores[rows, column]
        relative = np.maximum(own, 1e-9) / np.maximum(scores[rows].max(axis=1), 1e-9)
        higher = (own[None, :] > own[:, None]).mean(axis=1)
        found += [
            (int(row), column, float(doubt)) for row, doubt in zip(rows, (higher + 1 - relative) / 2, strict=True)
        ]
    return sorted(found, key=lambda each: -each[2])


def find_doubtful(
    run: str | Path, out: Path | None = None, top: int | None = None, running: InferenceOptions = InferenceOptions()
) -> DoubtfulLabels:
    """`scob recover RUN --doubtful`: write a run's given labels for review, the most doubtful first.

    They are reviewed like suggestions: accept what is there, reject what is not; an import then makes it -1.
    """
    path = Path(run)
    if not (path / "config.yaml").is_file():
        raise UserError(f"{path} is not a run folder: only a run has given labels to doubt")
    scob = Scob.from_pretrained(path, running.device)
    own = FinishedRun.open(path).images
    features = pooled_features(scob, own.split.images, running.batch, running.progress)
    scores = out_of_fold(features, own.observed)
    names, classes = own.observed.images, own.observed.classes
    shown = [tuple(classes[c] for c in np.flatnonzero(line == PRESENT)) for line in own.observed.values]
    suggestions = [
        Suggestion(names[row], classes[column], float(scores[row, column]), doubt, observed=shown[row])
        for row, column, doubt in doubts(scores, own.observed)[:top]
    ]
    folder = out or path / DOUBTFUL
    images = dict.fromkeys(s.image for s in suggestions)
    write_queue(folder, suggestions, files_to_show(folder, images, own.split), own.observed.classes)
    return DoubtfulLabels(folder, tuple(suggestions))
