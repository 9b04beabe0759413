"""Pairs of images: their features and labels against loops, and what is left of the method without its parts."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from scob.algorithm.losses import l_class
from scob.algorithm.sampling import Batch
from scob.config import Config
from scob.draws import seed_key, uniform
from scob.errors import UserError
from scob.methods.chosen_label import log_chosen, quadrature
from scob.methods.pairs import naming_logit, shifted, thinned, united_estimates, united_labels
from scob.training.finished_run import FinishedRun
from scob.training.train import train
from support.runs import batches_of, first_batch

WITHOUT_DROPOUT = ("method=pairs", "model.dropout=0")


def test_a_class_is_in_a_pair_if_it_is_in_one_of_its_images() -> None:
    labels = torch.tensor([1, 0, -1])
    first, second = labels.repeat_interleave(3), labels.repeat(3)
    assert united_labels(first, second).tolist() == [1, 1, 1, 1, 0, 0, 1, 0, -1]
    p = torch.tensor([0.0, 0.3, 1.0])
    both = united_estimates(p.repeat_interleave(3), p.repeat(3))
    assert both.tolist() == pytest.approx([0, 0.3, 1, 0.3, 0.51, 1, 1, 1, 1])


def test_a_shifted_map_begins_elsewhere_and_loses_nothing() -> None:
    features = torch.rand(3, 2, 4, 5)
    down, right = torch.tensor([0, 1, 3]), torch.tensor([0, 4, 2])
    moved = shifted(features, down, right)
    assert torch.equal(moved[0], features[0])
    for image in range(3):
        for row in range(4):
            for column in range(5):
                from_row, from_column = (row + int(down[image])) % 4, (column + int(right[image])) % 5
                assert torch.equal(moved[image, :, row, column], features[image, :, from_row, from_column])


def test_a_thinned_map_has_no_such_channels_and_the_same_mean() -> None:
    features, draw = torch.rand(200, 50, 2, 3) + 1, torch.rand(200, 50)
    thin = thinned(features, draw, 0.2)
    for image, channel in ((0, 0), (3, 17), (199, 49)):
        expected = 0.0 if draw[image, channel] < 0.2 else features[image, channel] / 0.8
        assert torch.allclose(thin[image, channel], torch.as_tensor(expected).expand(2, 3))
    assert float(thin.mean()) == pytest.approx(float(features.mean()), rel=0.02)


def test_a_map_with_more_channels_loses_a_larger_share_of_them(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of(*WITHOUT_DROPOUT, "pairs.channels=100")
    batches = [batch for epoch in range(40) for batch in batches_of(e, epoch)]
    lost = [[], []]  # type: ignore[var-annotated]
    for batch in batches:
        ones = torch.ones(len(batch.rows), 25, 1, 1), torch.ones(len(batch.rows), 300, 1, 1)
        one, other = (e.method.noisy(ones, batch, of) for of in ("images", "pairs"))
        assert not torch.equal(one[0], other[0])  # an image and its pair lose different ones
        for stage, values in enumerate(one):
            lost[stage].append((values == 0).float().mean())
    assert float(torch.stack(lost[0]).mean()) == pytest.approx(25 / 125, abs=0.02)
    assert float(torch.stack(lost[1]).mean()) == pytest.approx(300 / 400, abs=0.02)


def test_both_stages_are_shifted_by_the_same_share_of_the_image(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of(*WITHOUT_DROPOUT)
    batch = first_batch(e)
    count, height, width = len(batch.rows), 3, 5
    cells = torch.arange(height * width, dtype=torch.float32).view(1, 1, height, width).expand(count, -1, -1, -1)
    fine = cells.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)  # each cell, four times as fine
    third, fourth = e.method.moved((fine, cells), batch)
    assert torch.equal(third, fourth.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1))
    starts = fourth[:, 0, 0, 0]
    assert len(starts.unique()) > 1  # not all images alike
    start_of = [dict[int, float](), dict[int, float]()]  # nor one image in all epochs
    for epoch in (0, 1):
        for part in batches_of(e, epoch):
            some = cells[:1].expand(len(part.rows), -1, -1, -1)
            begun = e.method.moved((some, some), part)[1][:, 0, 0, 0]
            start_of[epoch] |= dict(zip(part.rows.tolist(), begun.tolist(), strict=True))
    assert start_of[0].keys() == start_of[1].keys() and start_of[0] != start_of[1]


def kept_channels(method: Any, batch: Batch, name: str, channels: int) -> Tensor:
    """0 for a channel that is left out, else what it is multiplied by, (B, C)."""
    u = uniform(batch.keys, seed_key(method.problem.seed, name), channels)
    share = channels / (channels + method.pairs.channels)
    return torch.tensor([[0.0 if value < share else 1 / (1 - share) for value in row] for row in u.tolist()])


def naive_losses(method: Any, batch: Batch) -> tuple[float, float, float]:
    """L_class, the pairs' loss and the likelihood of one batch, pair by pair and class by class."""
    clean = method.clean_features(batch)
    u = uniform(batch.keys, seed_key(method.problem.seed, "shift"), 2)
    starts = [(int(u[i, 0] * clean[1].shape[2]), int(u[i, 1] * clean[1].shape[3])) for i in range(len(u))]
    scales = [f.shape[2] // clean[1].shape[2] for f in clean]
    clean = tuple(
        torch.stack([f[i].roll((-s * y, -s * x), dims=(1, 2)) for i, (y, x) in enumerate(starts)])
        for f, s in zip(clean, scales, strict=True)
    )
    kept = {
        of: [kept_channels(method, batch, f"channels of {of}, stage {n}", f.shape[1]) for n, f in enumerate(clean)]
        for of in ("images", "pairs")
    }
    observed = method.observed(batch)
    count, classes = observed.shape
    rows = method.estimator.rows(batch.rows).detach().sigmoid()
    logits = method.logits(tuple(f * k[:, :, None, None] for f, k in zip(clean, kept["images"], strict=True))).detach()
    images = float(l_class(logits.sigmoid(), rows, observed, method.problem.k))
    pairs = likelihood = 0.0
    nodes = quadrature(logits.device)
    for i in range(count):
        j = (i - 1) % count
        stages = [
            torch.cat((f[i : i + 1], f[j : j + 1]), dim=-1) * k[i][None, :, None, None]
            for f, k in zip(clean, kept["pairs"], strict=True)
        ]
        z = method.logits(tuple(stages)).detach()
        for c in range(classes):
            p = torch.sigmoid(z[0, c]).item()
            known: list[int] = [int(observed[i, c]), int(observed[j, c])]
            halfway = [(float(rows[n, c]) + float(logits[n, c].sigmoid())) / 2 for n in (i, j)]
            y = [1.0 if k == 1 else 0.0 if k == -1 else h for k, h in zip(known, halfway, strict=True)]
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
    return images, pairs, 6 * likelihood


@pytest.mark.parametrize("labels", ["as drawn", "some negatives", "none"])
def test_the_losses_are_those_of_a_loop_over_pairs(experiment_of: Callable[..., Any], labels: str) -> None:
    e = experiment_of(*WITHOUT_DROPOUT, "pairs.channels=100")
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
    e = experiment_of(*WITHOUT_DROPOUT, "pairs.epochs=2")
    phases = [e.method.phase(epoch) for epoch in (0, 1, 2, 3)]
    assert phases[2] == phases[3] != phases[1]
    assert set(e.method.step(first_batch(e, 1), e.optimiser)) == {"class", "pairs", "choice"}
    assert set(e.method.step(first_batch(e, 2), e.optimiser)) == {"class", "pairs"}


@pytest.mark.parametrize(("contrast", "other"), [("none", "role"), ("ipt", "scob")])
def test_without_pairs_and_likelihood_it_is_role_or_scob(
    experiment_of: Callable[..., Any], contrast: str, other: str
) -> None:
    losses = []
    for words in (
        (
            "method=pairs",
            "pairs.weight=0",
            "pairs.choice=0",
            "pairs.shift=false",
            "pairs.channels=0",
            "pairs.rate=1",
            "pairs.contrast=true",
        ),
        (f"method={other}",),
    ):
        e = experiment_of(*words, f"scob.contrast={contrast}")
        for epoch in (0, 1):
            e.method.begin_epoch(epoch)
            losses.append(e.method.step(first_batch(e, epoch), e.optimiser))
    for ours, theirs in zip(losses[:2], losses[2:], strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_contrast_can_be_added(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=pairs", "pairs.contrast=true")
    e.method.begin_epoch(1)
    losses = e.method.step(first_batch(e, 1), e.optimiser)
    assert set(losses) == {"class", "pairs", "choice", "contrast"} and all(loss > 0 for loss in losses.values())


def test_padding_is_nobodys_partner(experiment_of: Callable[..., Any]) -> None:
    """A batch that is filled up, as a CUDA graph needs it, has the losses of the batch that is not."""
    words = ("train.batch=6", *WITHOUT_DROPOUT)
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


def test_masks_are_those_of_the_map_as_it_is(experiment_of: Callable[..., Any]) -> None:
    """The E-step of a step with changed maps finds the masks that it finds without."""
    found = []
    for shift, channels in (("true", 100), ("false", 0), ("false", 100)):
        e = experiment_of("method=pairs", "pairs.contrast=true", f"pairs.shift={shift}", f"pairs.channels={channels}")
        e.method.begin_epoch(1)
        batch = first_batch(e, 1)
        e.method.step(batch, e.optimiser)
        found.append(e.method.bank.load(batch.rows, torch.zeros(len(batch.rows), dtype=torch.bool)))
    for one, other, third in zip(*found, strict=True):
        assert torch.equal(one, other) and torch.equal(one, third) and 0 < one.float().mean() < 1


def test_a_backbone_that_learns_learns_from_shifted_maps(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=pairs", "model.freeze=none")
    before = [p.detach().clone() for p in e.network.backbone.parameters() if p.requires_grad]
    e.method.step(first_batch(e), e.optimiser)
    after = [p for p in e.network.backbone.parameters() if p.requires_grad]
    assert before and any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_one_half_is_where_as_many_labels_are_named_as_expected() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.7, 0.3, 0.2]])
    assert naming_logit(scores, k=1.5) == pytest.approx((math.log(7 / 3) + math.log(3 / 7)) / 2)
    assert naming_logit(scores, k=1) > naming_logit(scores, k=2)
    assert naming_logit(scores, k=0) == naming_logit(scores, k=3) == 0.0


@pytest.mark.parametrize("split", ["train", "holdout"])
def test_a_finished_run_names_as_many_labels_as_expected(
    configure: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    """The model that is stored, not only the one in memory; its order of scores is that of the last epoch."""
    monkeypatch.setattr("scob.training.run_data.ENOUGH", 10 if split == "holdout" else 1000)
    words = ("method=pairs", "pairs.linear=false", "train.epochs=2", "data.evaluate=val", "train.holdout=0.25")
    run = train(configure(*words, "train.select=last"), tmp_path / "run")
    stored = FinishedRun.open(tmp_path / "run")
    scores = stored.scores(split, "cpu")
    assert torch.allclose(scores, run.scores(split), atol=1e-5)
    assert run.experiment is not None and run.experiment.method.lowered_by > 0
    assert float((scores > 0.5).sum(dim=1).float().mean()) == pytest.approx(stored.summary["k"], abs=0.5 / len(scores))
    before = run.experiment.method.estimator.probabilities()
    after = torch.from_numpy(stored.images.estimates)[~torch.from_numpy(stored.images.held_out)]
    lowered = (before.logit() - run.experiment.method.lowered_by).sigmoid()
    assert torch.allclose(after, lowered, atol=1e-3) and not torch.allclose(after, before, atol=1e-2)
    assert stored.summary["evaluation"]["mAP"] == pytest.approx(stored.curve[-1]["mAP"], abs=1e-3)


def test_a_model_that_names_few_labels_is_left_alone(experiment_of: Callable[..., Any]) -> None:
    """k may be a guess: it never makes the model name more."""
    e = experiment_of(*WITHOUT_DROPOUT)
    bias = e.network.classifier.bias.detach().clone()
    assert e.method.finish(lambda: torch.full((5, len(bias)), 0.1)) == 0
    assert torch.equal(e.network.classifier.bias, bias)


def test_double_precision_with_estimates_on_the_host(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of(*WITHOUT_DROPOUT, "train.precision=fp64", "train.rows=host")
    assert all(loss > 0 for loss in e.method.step(first_batch(e), e.optimiser).values())


def test_contrast_between_whole_images_is_refused(experiment_of: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=r"scob\.contrast=byol"):
        experiment_of("method=pairs", "scob.contrast=byol")


def test_the_smt_alone_learns_at_a_multiple_of_its_rate(experiment_of: Callable[..., Any]) -> None:
    """The first step of Adam moves every weight by its learning rate."""
    e = experiment_of("method=pairs", "pairs.rate=3", "train.warmup=0", "train.schedule=constant")
    before = [p.detach().clone() for p in e.method.groups()["smt"]], e.network.classifier.weight.detach().clone()
    e.method.step(first_batch(e, 0), e.optimiser)
    smt = max(float((p - old).abs().max()) for p, old in zip(e.method.groups()["smt"], before[0], strict=True))
    classifier = float((e.network.classifier.weight - before[1]).abs().max())
    assert smt == pytest.approx(3 * e.config.train.lr_smt, rel=1e-3)
    assert classifier == pytest.approx(e.config.train.lr_other, rel=1e-3)
