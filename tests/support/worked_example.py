"""Two images and three classes, by which losses are checked against values worked out by hand.

The first image has p = (0.8, 0.3, 0.5) with the first label observed present, the second p = (0.1, 0.6, 0.9)
with the third observed present and the first observed absent. Logarithms: -log 0.8 = 0.2231, -log 0.7 = 0.3567,
-log 0.5 = 0.6931, -log 0.9 = 0.1054, -log 0.4 = 0.9163, -log 0.6 = 0.5108, -log 0.3 = 1.2040, -log 0.2 = 1.6094.
"""

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from scob import methods
from scob.parallel import Processes

LOGITS = torch.logit(torch.tensor([[0.8, 0.3, 0.5], [0.1, 0.6, 0.9]]))
OBSERVED = torch.tensor([[1, 0, 0], [-1, 0, 1]], dtype=torch.int8)


def bare(name: str, epochs: int = 11, **settings: Any) -> Any:
    """A method without a network or images, which is enough for its loss."""
    kind = methods.find(name)
    method = kind.__new__(kind)
    nn.Module.__init__(method)
    method.settings = kind.Settings(**settings)
    method.problem = SimpleNamespace(
        k=1.5, epochs=epochs, processes=Processes(), observed=torch.cat((OBSERVED, OBSERVED[:1] * 0)), steps_per_epoch=1
    )
    return method


def value(method: Any, epoch: int = 0, observed: torch.Tensor = OBSERVED, logits: torch.Tensor = LOGITS) -> float:
    """The sum of the named terms on the two images."""
    batch = SimpleNamespace(weight=torch.full((len(logits),), 1 / len(logits)), rows=torch.arange(len(logits)))
    batch.epoch = batch.step = epoch
    return float(sum(method.losses(logits, observed, batch).values()))


def entries(*numbers: float) -> float:
    """The loss of six entries: the mean over three classes and two images."""
    assert len(numbers) == 6
    return sum(numbers) / 6


def log(p: float) -> float:
    return -math.log(p)


def focal_margin(p: float) -> float:
    """The focal margin loss of a positive; a margin of 1 divides the odds by e."""
    odds = p / (1 - p) / math.e
    shifted = odds / (1 + odds)
    return (1 - shifted) ** 2 * log(shifted)


def entropy(p: float) -> float:
    return p * log(p) + (1 - p) * log(1 - p)
