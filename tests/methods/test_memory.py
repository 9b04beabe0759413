"""The memory of a method: the last logits of every image, reviewed before the first step of each later epoch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.runs import batches_of


def test_the_last_logits_of_each_image_are_kept(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=curriculum")
    batch = next(iter(batches_of(e, 0)))
    e.method.eval()  # without dropout
    logits = e.method.logits(e.method.clean_features(batch)).detach()
    e.method.step(batch, e.optimiser)
    assert torch.equal(e.method.remembered[batch.rows], logits)
    others = torch.ones(len(e.method.remembered), dtype=torch.bool)
    others[batch.rows] = False
    assert not e.method.remembered[others].any()


def test_each_later_epoch_is_reviewed_once_before_its_first_step(
    experiment_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    e = experiment_of("method=curriculum")
    events: list[str] = []
    monkeypatch.setattr(e.method, "review", lambda epoch: events.append(f"review {epoch}"))
    for epoch in range(3):
        for batch in list(batches_of(e, epoch))[:2]:
            e.method.step(batch, e.optimiser)
            events.append(f"step {batch.step}")
    assert events == ["step 0", "step 1", "review 1", "step 5", "step 6", "review 2", "step 10", "step 11"]
