"""The linear classifier beside the head (`model.linear`), computed when training has ended.

It is a ridge regression of the labels on the channels of stage 4 (`LinearPart.read`; both of their means have the same
deviation over the training images). Every label that was not observed counts as 0. The penalty is the one with the
smallest leave-one-out error: the error of each image's prediction by a regression on all other images, which has a
closed form. So no further labels are needed to choose it.

A regression says how likely a label is to be observed, in its own units. They become logits like those of the head:
for each class, the leave-one-out predictions get the mean and the deviation that the head's logits have on the same
images. The network's logits are the mean of both.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.draws import permutation
from scob.errors import UserError
from scob.labels import PRESENT
from scob.model.backbone import Features
from scob.model.heads import pool
from scob.model.linear import strongest_cells
from scob.training.build import Experiment, scored_at_once
from scob.training.out_of_memory import FittingBatch, is_out_of_memory, release
from scob.training.scoring import over_images

MOST = 30_000  # images that it is computed from; more of them would hardly change it
PENALTIES = tuple(10 ** (step / 2) for step in range(-4, 7))  # in units of the mean square of a feature, summed
SHARE = 0.5  # of the linear classifier in the logits of the network
HONEST = 0.25  # of the leave-one-out predictions in the estimates; the head knows the training images well


@dataclass(frozen=True)
class Ridge:
    """`features @ weight + bias` predicts the labels; `honest` (N, L) are the leave-one-out predictions."""

    weight: Tensor
    bias: Tensor
    honest: Tensor
    penalty: float


def ridge(features: Tensor, labels: Tensor) -> Ridge:
    """The ridge regression of labels (N, L) on features (N, C) with the penalty that predicts best, leave-one-out.

    Both in 64 bits. Features that are all the same get no weight.
    """
    count, channels = features.shape
    squares = float(features.square().sum())
    middle, shown = features.mean(dim=0), labels.mean(dim=0)
    x, y = features - middle, labels - shown
    strengths, directions = torch.linalg.eigh(x.T @ x)
    strengths = strengths.clamp(min=0)
    rotated = x @ directions
    del x  # as large as all the features
    projected = rotated.T @ y
    # What is left of features that are all the same, or of a single image, is nothing or the noise of rounding.
    unit = max(float(strengths.sum()), torch.finfo(torch.float64).eps * squares) / channels or 1.0

    def solved(penalty: float) -> tuple[Tensor, Tensor]:
        """The weights of the rotated features (C, L), and the leave-one-out predictions (N, L)."""
        shrunk = 1 / (strengths + penalty * unit)
        weight = shrunk[:, None] * projected
        own = (rotated.square() @ shrunk + 1 / count).clamp(max=1 - 1e-6)  # how far each prediction follows its label
        return weight, labels - (y - rotated @ weight) / (1 - own)[:, None]

    errors = [float((labels - solved(penalty)[1]).square().mean()) for penalty in PENALTIES]
    best = PENALTIES[int(np.argmin(errors))]
    weight, honest = solved(best)
    weight = directions @ weight
    return Ridge(weight, shown - middle @ weight, honest, best)


def like_logits(regression: Ridge, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weight (C, L), bias (L,) and leave-one-out predictions (N, L), which get mean and deviation of `logits` (N, L).

    A class whose predictions are all the same says nothing, and gets the mean alone.
    """
    honest = regression.honest
    deviation = honest.std(dim=0, correction=0)
    says = deviation > 1e-9
    scale = torch.where(says, logits.std(dim=0, correction=0) / torch.where(says, deviation, 1.0), 0.0)
    shift = logits.mean(dim=0) - honest.mean(dim=0) * scale
    return regression.weight * scale, regression.bias * scale + shift, honest * scale + shift


@dataclass(frozen=True)
class Fitted:
    """Scores of the training images (N, L) by the network with its linear part, and `honest` ones, on the CPU.

    In those, the linear part of each image's score is the prediction of a regression on other images.
    """

    scores: Tensor
    honest: Tensor


def fit_linear(
    experiment: Experiment, progress: Callable[[int], None] | None = None, batch: FittingBatch | None = None
) -> Fitted:
    """Give the network its linear classifier; returns the scores of the training images.

    Every process has the values of all images; the first one computes the classifier, and the others get a copy.
    """
    e, linear = experiment, experiment.network.linear
    assert linear is not None
    device, classes, channels = e.processes.device, e.network.classes, linear.weight.shape[1]
    fitting = batch or FittingBatch(scored_at_once(device))

    def of_images(compute: Callable[[Features], Tensor], width: int, rows: NDArray[np.int64]) -> Tensor:
        """What is computed from each of these training images, (N, width)."""
        source, feed = e.inputs.sources["train"], e.inputs.feeds["train"]
        return over_images(compute, width, source, feed, fitting, e.config.train.flip_test, e.processes, progress, rows)

    def logits_and_means(features: Features) -> Tensor:
        """The head's logits and the means that the linear classifier reads, side by side."""
        parts = e.network.classify(features), pool(features[1], None), strongest_cells(features[1])
        return torch.cat([part.float() for part in parts], dim=1)

    e.network.eval()
    linear.share.zero_()
    rows = drawn_rows(len(e.data.train), e.config.train.seed)
    others = np.setdiff1d(np.arange(len(e.data.train)), rows)
    scores, honest = torch.zeros(2, len(e.data.train), classes, device=device)
    with explained_shortage():
        values = of_images(logits_and_means, classes + 2 * channels, rows)
        with e.processes.together():
            if e.processes.first:
                logits, mean, strongest = (
                    part.double() for part in values.split_with_sizes([classes, channels, channels], dim=1)
                )
                linear.scale.copy_(torch.tensor([1 / deviation(part) for part in (mean, strongest)]))
                features = linear.read(mean, strongest)
                observed = torch.from_numpy(e.data.observed.values[rows] == PRESENT).double()
                weight, bias, left_out = solve(features, observed, logits, device)
                linear.weight.data.copy_(weight.T)
                linear.bias.data.copy_(bias)
                scores[rows] = torch.lerp(logits, features @ weight + bias, SHARE).sigmoid().to(scores)
                honest[rows] = torch.lerp(logits, left_out, HONEST).sigmoid().to(honest)
        del values
        e.processes.copy_first((*linear.state_dict().values(), scores, honest))
        for table, share in ((scores, SHARE), (honest, HONEST)) if len(others) else ():
            linear.share.fill_(share)
            table[others] = of_images(e.network.classify, classes, others).sigmoid().to(table)
    linear.share.fill_(SHARE)
    return Fitted(scores.cpu(), honest.cpu())


def deviation(values: Tensor) -> float:
    """The deviation of values (N, C) from the mean of their channel, over all of them; 1 if only rounding differs."""
    deviation = float(values.std(dim=0, correction=0).square().mean().sqrt())
    return deviation if deviation > 1e-6 * float(values.square().mean().sqrt()) else 1.0


def solve(features: Tensor, observed: Tensor, logits: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What `like_logits` gives, on the CPU; computed on the GPU if there is one with enough memory."""
    if device.type == "cuda":  # Metal has no 64-bit numbers
        try:
            weight, bias, honest = like_logits(ridge(features.to(device), observed.to(device)), logits.to(device))
            return weight.cpu(), bias.cpu(), honest.cpu()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        release()
    return like_logits(ridge(features, observed), logits)


@contextmanager
def explained_shortage() -> Iterator[None]:
    """If memory runs out inside, say what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            "the linear classifier of the trained network does not fit into memory: close other programs and continue "
            "the run with --resume, or start one without it (model.linear=false; with method=pairs, pairs.linear=false)"
        ) from error


def drawn_rows(images: int, seed: int) -> NDArray[np.int64]:
    """All images, or as many as are enough, drawn at random."""
    return np.arange(images) if images <= MOST else np.sort(permutation(images, seed, 0, "linear")[:MOST])
