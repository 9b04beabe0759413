"""IGNORE: what is left out, the running means, and the loss, against naive loops."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from scob.algorithm.cam import MapSettings, activation_maps, leaves, masks_of
from scob.methods.ignore import ignored
from support.runs import first_batch
from support.worked_example import LOGITS, OBSERVED, bare


def test_an_unknown_label_above_both_means_is_left_out() -> None:
    gaps = torch.tensor([[9.0, 3.0, 3.0], [9.0, 1.0, 9.0]])
    usual = torch.tensor([-9.0, -9.0, 0.5])
    naive = [
        [bool(OBSERVED[i, c] == 0 and gaps[i, c] > 2 and LOGITS[i, c] > usual[c]) for c in range(3)] for i in range(2)
    ]
    assert ignored(LOGITS, gaps, torch.tensor(2.0), usual, OBSERVED).tolist() == naive
    assert naive == [[False, True, False], [False, False, False]], "the third logit is 0, below 0.5"


def test_the_means_start_at_the_first_batch_and_then_follow() -> None:
    method = bare("ignore", decay=0.9)
    method.register_buffer("usual_gap", torch.zeros(()))
    method.register_buffer("usual_logits", torch.zeros(3))
    method.register_buffer("started", torch.zeros((), dtype=torch.bool))
    gaps = torch.tensor([[4.0, 0.0, 0.0], [0.0, 0.0, 1.0], [7.0, 7.0, 7.0]])
    logits = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [8.0, 8.0, 8.0]])
    weight, chosen = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0, -1, 1])  # one labelled, one not, and padding
    method.remember(logits, gaps, SimpleNamespace(weight=weight, chosen=chosen))
    assert float(method.usual_gap) == 4.0 and method.usual_logits.tolist() == [2.0, 2.0, 2.0]
    method.remember(logits * 0, gaps * 0, SimpleNamespace(weight=weight, chosen=chosen))
    assert float(method.usual_gap) == pytest.approx(3.6)
    assert method.usual_logits.tolist() == pytest.approx([1.8] * 3)


def test_the_loss_by_naive_loops(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=ignore", "model.dropout=0", "train.warmup=0", "ignore.decay=0")
    m, batch = e.method, first_batch(e, 1)
    m.train()
    clean = leaves(m.clean_features(batch))
    logits = m.logits(clean)
    settings = MapSettings()
    masks = masks_of(activation_maps(logits, clean, batch.chosen, settings), settings)
    with torch.no_grad():
        masked = e.network.classify(clean, masks)
        views = e.source.views
        strong = m.logits(e.source.of(views.strong(batch.images, views.flips(batch.keys, "strong"), batch.keys))[0])
    observed, gaps = m.observed(batch), (logits - masked).abs()
    rows = range(len(logits))
    usual_gap = sum(float(gaps[i, batch.chosen[i]]) for i in rows) / len(logits)
    usual_logits = logits.mean(dim=0)
    bce = inside = consistency = 0.0
    left_out = 0
    for i in rows:
        for c in range(logits.shape[1]):
            z, share = logits[i, c], 1 / logits.numel()
            consistency += 0.5 * share * float((strong[i, c] - z) ** 2)
            if c == int(batch.chosen[i]):
                inside += 0.1 * share * float(torch.nn.functional.softplus(-masked[i, c]))
            if observed[i, c] == 1:
                bce += share * float(torch.nn.functional.softplus(-z))
            elif float(gaps[i, c]) > usual_gap and z > usual_logits[c]:
                left_out += 1
            else:
                bce += share * float(torch.nn.functional.softplus(z))
    losses = m.step(batch, e.optimiser)
    assert left_out > 0
    assert float(losses["bce"]) == pytest.approx(bce, rel=1e-4)
    assert float(losses["masked"]) == pytest.approx(inside, rel=1e-4)
    assert float(losses["consistency"]) == pytest.approx(consistency, rel=1e-3)


def test_in_the_warm_up_every_unknown_label_counts_as_absent(experiment_of: Callable[..., Any]) -> None:
    words = ("model.dropout=0", "train.warmup=0")
    ours, plain = experiment_of("method=ignore", *words), experiment_of("method=an", *words)
    first = ours.method.step(first_batch(ours, 0), ours.optimiser)["bce"]
    second = plain.method.step(first_batch(plain, 0), plain.optimiser)["bce"]
    assert float(first) == pytest.approx(float(second), abs=1e-5)
