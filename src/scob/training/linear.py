"""The linear classifier beside the head (`model.linear`), computed when training has ended.

It is a ridge regression of the labels on the channels of stage 4 (`LinearPart.read`; both of their means have the same
deviation over the training images). Every label that was not observed counts as 0. The penalty is the one with the
smallest leave-one-out error: the error of each image's prediction by a regression on all other images, which has a
closed form. So no further labels are needed to choose it.

A regression says how likely a label is to be observed, in its own units. They become logits like those of the head:
for each class, the leave-one-out predictions get the mean and the deviation that the head's logits have on the same
images. The network's logits are the mean of both.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.draws import permutation
from scob.labels import PRESENT
from scob.model.backbone import Features
from scob.model.heads import pool
from scob.model.linear import strongest_cells
from scob.training.build import Experiment, scored_at_once
from scob.training.events import Listener, counter, silent
from scob.training.out_of_memory import FittingBatch
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
    """The ridge regression of labels (N, L) on features (N, C) with the penalty that predicts best, leave-one-out."""
    count, channels = features.shape
    middle, shown = features.mean(dim=0), labels.mean(dim=0)
    x, y = features - middle, labels - shown
    strengths, directions = torch.linalg.eigh(x.T @ x)
    rotated = x @ directions
    projected = rotated.T @ y
    unit = strengths.clamp(min=0).sum() / channels + torch.finfo(x.dtype).tiny

    def solved(penalty: float) -> tuple[Tensor, Tensor]:
        """The weights of the rotated features (C, L), and the leave-one-out predictions (N, L)."""
        shrunk = 1 / (strengths.clamp(min=0) + penalty * unit)
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
    deviation = honest.std(dim=0)
    says = deviation > 1e-9
    scale = torch.where(says, logits.std(dim=0) / torch.where(says, deviation, 1.0), 0.0)
    shift = logits.mean(dim=0) - honest.mean(dim=0) * scale
    return regression.weight * scale, regression.bias * scale + shift, honest * scale + shift


@dataclass(frozen=True)
class Fitted:
    """Scores of the training images (N, L) by the network with its linear part, and `honest` ones.

    In those, the linear part of each image's score is the prediction of a regression on all other images.
    """

    scores: Tensor
    honest: Tensor


def fit_linear(experiment: Experiment, listen: Listener = silent) -> Fitted | None:
    """Give the network its linear classifier; returns its scores of the training images, if all of them were used."""
    e, linear = experiment, experiment.network.linear
    assert linear is not None
    rows = drawn_rows(len(e.data.train), e.config.train.seed)
    classes = e.network.classes

    def both(features: Features) -> Tensor:
        """The head's logits and what the linear classifier reads, side by side."""
        parts = e.network.classify(features), pool(features[1], None), strongest_cells(features[1])
        return torch.cat([part.float() for part in parts], dim=1)

    e.network.eval()
    linear.share.zero_()
    device, channels = e.processes.device, linear.weight.shape[1]
    values = over_images(
        both, classes + 2 * channels, e.inputs.sources["train"], e.inputs.feeds["train"],
        FittingBatch(scored_at_once(device)), e.config.train.flip_test, e.processes,
        counter("computing the linear classifier", len(rows), listen), rows,
    )  # fmt: skip
    values = values.to(device if device.type == "cuda" else "cpu", torch.float64)  # Metal has no 64-bit numbers
    logits, *means = values.split_with_sizes([classes, channels, channels], dim=1)
    with torch.no_grad():
        deviations = [float((mean - mean.mean(dim=0)).square().mean().sqrt()) for mean in means]
        linear.scale.copy_(torch.tensor([1 / deviation if deviation > 0 else 1.0 for deviation in deviations]))
    features = linear.read(means[0], means[1])
    observed = torch.from_numpy(e.data.observed.values[rows] == PRESENT).to(features)
    regression = ridge(features, observed)
    weight, bias, honest = like_logits(regression, logits)
    with torch.no_grad():
        linear.weight.copy_(weight.T)
        linear.bias.copy_(bias)
        linear.share.fill_(SHARE)
    e.processes.copy_first(linear.state_dict().values())
    if len(rows) < len(e.data.train):
        return None
    together = torch.lerp(logits, features @ weight + bias, SHARE), torch.lerp(logits, honest, HONEST)
    scores, unseen = (part.sigmoid().float().cpu() for part in together)
    return Fitted(scores, unseen)


def drawn_rows(images: int, seed: int) -> NDArray[np.int64]:
    """All images, or as many as are enough, drawn at random."""
    return np.arange(images) if images <= MOST else np.sort(permutation(images, seed, 0, "linear")[:MOST])
