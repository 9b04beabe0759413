"""Our reading of MIME, worked out by hand."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from scob.methods.mime import LabelQueries
from support.runs import first_batch
from support.worked_example import LOGITS, OBSERVED, bare, entries, entropy, log

PSEUDO = torch.logit(torch.tensor([[0.9, 0.6, 0.2], [0.3, 0.5, 0.7]]))


def at(epoch: int) -> Any:
    return SimpleNamespace(weight=torch.tensor([0.5, 0.5]), rows=torch.arange(2), epoch=epoch)


def test_the_warm_up_assumes_absence() -> None:
    terms = bare("mime", epochs=4).losses(LOGITS, PSEUDO, OBSERVED, at(0))
    assert float(terms["bce"]) == pytest.approx(entries(0.2231, 0.3567, 0.6931, 0.1054, 0.9163, 0.1054), abs=1e-4)
    encoder = entries(log(0.9), log(0.4), log(0.8), log(0.7), log(0.5), log(0.7))
    assert float(terms["encoder"]) == pytest.approx(encoder, abs=1e-4) and "information" not in terms


def test_network_and_pseudo_labels_teach_each_other() -> None:
    def cross(p: float, target: float) -> float:
        return target * log(p) + (1 - target) * log(1 - p)

    terms = bare("mime", epochs=4, information=0.5, agreement=2.0).losses(LOGITS, PSEUDO, OBSERVED, at(1))
    network = entries(log(0.8), cross(0.3, 0.6), cross(0.5, 0.2), log(0.9), cross(0.6, 0.5), log(0.9))
    assert float(terms["bce"]) == pytest.approx(network, abs=1e-4)
    mutual = [2 * cross(q, p) for q, p in ((0.6, 0.3), (0.2, 0.5), (0.5, 0.6))]
    encoder = entries(log(0.9), mutual[0], mutual[1], log(0.7), mutual[2], log(0.7))
    assert float(terms["encoder"]) == pytest.approx(encoder, abs=1e-4)
    means = sum(entropy(q) for q in (0.6, 0.55, 0.45)) / 3
    each = sum(entropy(q) for q in (0.9, 0.6, 0.2, 0.3, 0.5, 0.7)) / 6
    assert float(terms["information"]) == pytest.approx(-0.5 * (means - each), abs=1e-4)


def test_each_query_attends_to_its_own_cells() -> None:
    torch.manual_seed(0)
    encoder, fourth = LabelQueries(5, 3, 8), torch.randn(2, 5, 2, 2)
    ours = encoder((fourth, fourth))
    for i in range(2):
        cells = [fourth[i, :, y, x] for y in range(2) for x in range(2)]
        for c in range(3):
            raw = [float(encoder.queries[c] @ encoder.keys(cell)) / math.sqrt(8) for cell in cells]
            total = sum(math.exp(r) for r in raw)
            gathered = sum(math.exp(r) / total * encoder.values(cell) for r, cell in zip(raw, cells, strict=True))
            assert float(ours[i, c]) == pytest.approx(float(gathered @ encoder.weight[c] + encoder.bias[c]), abs=1e-5)


def test_the_encoder_learns_and_its_gradient_stops_at_the_features(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=mime", "train.warmup=0")
    before = e.method.encoder.queries.detach().clone()
    e.method.train()
    e.optimiser.begin(0)
    e.method.step(first_batch(e, 2), e.optimiser)
    assert not torch.equal(before, e.method.encoder.queries)
    assert any(p is e.method.encoder.queries for p in e.method.groups()["other"])
