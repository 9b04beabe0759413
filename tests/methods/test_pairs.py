"""Pairs of images: their features and labels against loops, and what is left of the method without its parts."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from scob.algorithm.losses import l_class
from scob.algorithm.sampling import Batch
from scob.errors import UserError
from scob.methods.chosen_label import log_chosen, quadrature
from scob.methods.pairs import squeezed, united_estimates, united_labels
from support.runs import first_batch

WITHOUT_CONTRAST = ("method=pairs", "pairs.contrast=false", "model.dropout=0")


def test_a_class_is_in_a_pair_if_it_is_in_one_of_its_images() -> None:
    labels = torch.tensor([1, 0, -1])
    first, second = labels.repeat_interleave(3), labels.repeat(3)
    assert united_labels(first, second).tolist() == [1, 1, 1, 1, 0, 0, 1, 0, -1]
    p = torch.tensor([0.0, 0.3, 1.0])
    both = united_estimates(p.repeat_interleave(3), p.repeat(3))
    assert both.tolist() == pytest.approx([0, 0.3, 1, 0.3, 0.51, 1, 1, 1, 1])


@pytest.mark.parametrize("width", [2, 3, 7, 14])
def test_both_halves_show_the_whole_image(width: int) -> None:
    features = torch.rand(2, 3, 4, width)
    left, right = squeezed(features, right=False), squeezed(features, right=True)
    assert left.shape[-1] + right.shape[-1] == width and right.shape[-1] >= left.shape[-1]
    if width % 2 == 0:
        expected = torch.stack([features[..., 2 * i : 2 * i + 2].mean(dim=-1) for i in range(width // 2)], dim=-1)
        assert torch.allclose(left, expected) and torch.equal(left, right)
    for half in (left, right):  # every column has its part
        touched = torch.autograd.functional.jacobian(
            lambda x, right=half is right: squeezed(x, right).sum(dim=(0, 1, 2)), features
        )
        assert (touched.flatten(0, -2).abs().sum(dim=0) > 0).all()


def naive_losses(method: Any, batch: Batch) -> tuple[float, float, float]:
    """L_class, the pairs' loss and the likelihood of one batch, pair by pair and class by class."""
    clean = method.clean_features(batch)
    observed = method.observed(batch)
    count, classes = observed.shape
    rows = method.estimator.rows(batch.rows).detach().sigmoid()
    logits = method.logits(clean).detach()
    images = float(l_class(logits.sigmoid(), rows, observed, method.problem.k))
    pairs = likelihood = 0.0
    nodes = quadrature(logits.device)
    for i in range(count):
        j = (i - 1) % count
        stages = [torch.cat((squeezed(f[i : i + 1], False), squeezed(f[j : j + 1], True)), dim=-1) for f in clean]
        z = method.logits(tuple(stages)).detach()
        for c in range(classes):
            p = torch.sigmoid(z[0, c]).item()
            known: list[int] = [int(observed[i, c]), int(observed[j, c])]
            y = [1.0 if k == 1 else 0.0 if k == -1 else float(rows[n, c]) for k, n in zip(known, (i, j), strict=True)]
            target = y[0] + y[1] - y[0] * y[1]
            cost = -(target * math.log(p) + (1 - target) * math.log(1 - p))
            if 1 in known:
                cost -= math.log(p)
            elif known == [-1, -1]:
                cost -= math.log(1 - p)
            pairs += cost / 2 / classes / count
        for weight, image, seen in ((1.0, i, logits[i : i + 1]), (0.5, i, z), (0.5, j, z)):
            chosen = [c for c in range(classes) if observed[image, c] == 1]
            costs = [-float(log_chosen(seen, *nodes)[0, c]) for c in chosen]
            likelihood += weight * sum(costs) / max(len(costs), 1) / classes / count
    return images, pairs, 3 * likelihood


@pytest.mark.parametrize("labels", ["as drawn", "some negatives", "none"])
def test_the_losses_are_those_of_a_loop_over_pairs(experiment_of: Callable[..., Any], labels: str) -> None:
    e = experiment_of(*WITHOUT_CONTRAST)
    batch = first_batch(e)
    observed: Tensor = e.method.problem.observed
    if labels == "some negatives":
        observed[:, 0] = torch.where(observed[:, 0] == 1, 1, -1)
    if labels == "none":
        observed[batch.rows] = 0
    images, pairs, likelihood = naive_losses(e.method, batch)
    losses = e.method.step(batch, e.optimiser)
    assert float(losses["class"]) == pytest.approx(images, rel=1e-4)
    assert float(losses["pairs"]) == pytest.approx(pairs, rel=1e-4)
    assert float(losses["choice"]) == pytest.approx(likelihood, rel=1e-4, abs=1e-9)


def test_the_likelihood_ends_after_its_epochs(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of(*WITHOUT_CONTRAST, "pairs.epochs=2")
    phases = [e.method.phase(epoch) for epoch in (0, 1, 2, 3)]
    assert phases[2] == phases[3] != phases[1]
    assert set(e.method.step(first_batch(e, 1), e.optimiser)) == {"class", "pairs", "choice"}
    assert set(e.method.step(first_batch(e, 2), e.optimiser)) == {"class", "pairs"}


@pytest.mark.parametrize(("contrast", "other"), [("none", "role"), ("ipt", "scob")])
def test_without_pairs_and_likelihood_it_is_role_or_scob(
    experiment_of: Callable[..., Any], contrast: str, other: str
) -> None:
    losses = []
    for words in (("method=pairs", "pairs.weight=0", "pairs.choice=0"), (f"method={other}",)):
        e = experiment_of(*words, f"scob.contrast={contrast}")
        for epoch in (0, 1):
            e.method.begin_epoch(epoch)
            losses.append(e.method.step(first_batch(e, epoch), e.optimiser))
    for ours, theirs in zip(losses[:2], losses[2:], strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_contrast_is_part_of_it(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=pairs")
    e.method.begin_epoch(1)
    losses = e.method.step(first_batch(e, 1), e.optimiser)
    assert set(losses) == {"class", "pairs", "choice", "contrast"} and all(loss > 0 for loss in losses.values())


def test_padding_is_nobodys_partner(experiment_of: Callable[..., Any]) -> None:
    """A batch that is filled up, as a CUDA graph needs it, has the losses of the batch that is not."""
    words = ("train.batch=6", *WITHOUT_CONTRAST)
    plain, padded = experiment_of(*words), experiment_of(*words)
    batch = first_batch(plain)
    more = 3
    empty = torch.full((more,), plain.method.problem.images)
    longer = replace(
        batch,
        rows=torch.cat((batch.rows, empty)),
        keys=torch.cat((batch.keys, torch.zeros(more, dtype=torch.int64))),
        chosen=torch.cat((batch.chosen, torch.full((more,), -1))),
        weight=torch.cat((batch.weight, torch.zeros(more))),
        images=torch.cat((batch.images, torch.zeros_like(batch.images[:more]))),
    )
    ours, theirs = plain.method.step(batch, plain.optimiser), padded.method.step(longer, padded.optimiser)
    for name in ours:
        assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-5), name


def test_a_single_column_of_cells_is_averaged(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of(*WITHOUT_CONTRAST)
    features = (torch.rand(4, 3, 2, 1), torch.rand(4, 5, 1, 1))
    partners = torch.tensor([3, 0, 1, 2])
    for stage, joined in zip(features, e.method.pair_features(features, partners), strict=True):
        assert torch.allclose(joined, (stage + stage[partners]) / 2)


def test_contrast_between_whole_images_is_refused(experiment_of: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=r"scob\.contrast=byol"):
        experiment_of("method=pairs", "scob.contrast=byol")
