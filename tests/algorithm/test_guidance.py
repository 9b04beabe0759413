"""Which epochs use masks, and where the masks come from."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import scob.training.build
from scob.algorithm.cam import MapSettings, activation_maps, leaves, masks_of
from scob.algorithm.guidance import GuidedMethod
from scob.config import ScobSettings
from scob.errors import UserError
from support.runs import batches_of


def test_segmentation_is_needed_for_true_masks(configure: Any, scenes_of: Any) -> None:
    config = configure("scob.guidance=gt-mask")
    data = scenes_of(config)
    with pytest.raises(UserError, match="segmentation"):
        scob.training.build.build(
            config, replace(data, train=replace(data.train, masks=None)), scob.training.build.Processes()
        )


def method_with(epochs: int, **settings: Any) -> GuidedMethod:
    """A method that knows its settings and the length of its run, nothing else."""
    method = GuidedMethod.__new__(GuidedMethod)
    torch.nn.Module.__init__(method)
    method.settings, method.problem = ScobSettings(**settings), SimpleNamespace(epochs=epochs)  # type: ignore[assignment]
    return method


@pytest.mark.parametrize(
    ("settings", "initial", "contrasts", "guided"),
    [
        ({"init_epochs": 2}, "110000", "001111", "111111"),
        ({"init_epochs": 2, "guidance": "none"}, "110000", "001111", "000000"),
        ({"init_epochs": 2, "contrast": "none"}, "110000", "000000", "111111"),
        ({"init_epochs": 2, "optimisation": "two-stage"}, "000000", "111111", "001111"),
        ({"init_epochs": 2, "optimisation": "joint"}, "000000", "111111", "111111"),
    ],
)
def test_what_each_epoch_of_six_does(settings: dict[str, Any], initial: str, contrasts: str, guided: str) -> None:
    method = method_with(6, **settings)
    for decide, expected in ((method.initial, initial), (method.contrasts, contrasts), (method.guided, guided)):
        assert "".join("1" if decide(epoch) else "0" for epoch in range(6)) == expected


def test_a_phase_changes_only_when_the_step_does() -> None:
    method = method_with(6, init_epochs=2)
    assert len({method.phase(epoch) for epoch in (0, 1)}) == len({method.phase(epoch) for epoch in (2, 3, 4, 5)}) == 1
    assert method.phase(1) != method.phase(2)


def test_the_e_step_is_eq_3_of_the_observed_label(experiment_of: Any) -> None:
    e = experiment_of()
    batch = next(batches_of(e, 1))
    clean = leaves(e.method.clean_features(batch))
    logits = e.method.logits(clean)
    masks = e.method.e_step(logits, clean, batch, torch.zeros(len(batch.rows), dtype=torch.bool))
    maps = MapSettings.of(e.method.settings)
    expected = masks_of(activation_maps(logits, clean, batch.chosen, maps), maps)
    assert masks is not None
    assert all(torch.equal(a, b) for a, b in zip(masks, expected, strict=True))


def test_true_masks_replace_activations_where_there_is_segmentation(experiment_of: Any) -> None:
    e = experiment_of("scob.guidance=gt-mask")
    batch = next(batches_of(e, 1))
    flip = e.source.views.flips(batch.keys, "clean")
    bank = e.method.problem.true_masks
    without = batch.rows[:1]
    bank.packed[without] = 0
    clean = leaves(e.method.clean_features(batch))
    logits = e.method.logits(clean)
    masks = e.method.e_step(logits, clean, batch, flip)
    maps = MapSettings.of(e.method.settings)
    activated = masks_of(activation_maps(logits, clean, batch.chosen, maps), maps)
    true = bank.load(batch.rows, flip)
    assert all(torch.equal(mask[0], from_activation[0]) for mask, from_activation in zip(masks, activated, strict=True))
    assert all(torch.equal(mask[1:], segmented[1:]) for mask, segmented in zip(masks, true, strict=True))


def test_masks_and_scores_come_from_a_pass_without_dropout(experiment_of: Any) -> None:
    e = experiment_of("model.dropout=0.5")
    e.method.train()
    clean = leaves(e.method.clean_features(next(batches_of(e, 1))))
    trained = e.method.logits(clean)
    predicted = e.method.predict(trained, clean, len(trained))
    assert e.network.head.training  # the losses still have dropout
    assert torch.equal(predicted, e.method.predict(trained, clean, len(trained))) and not torch.equal(
        predicted, trained
    )
    e.network.head.eval()
    assert torch.equal(predicted, e.method.logits(clean))
    torch.testing.assert_close(e.method.predict(trained, clean, 3), predicted[:3], atol=1e-5, rtol=0)


@pytest.mark.parametrize("words", [("model.dropout=0.5", "scob.cam_dropout=true"), ("model.dropout=0",)])
def test_the_training_pass_serves_if_dropout_is_wanted_or_there_is_none(experiment_of: Any, words: Any) -> None:
    e = experiment_of(*words)
    e.method.train()
    clean = leaves(e.method.clean_features(next(batches_of(e, 1))))
    trained = e.method.logits(clean)
    assert torch.equal(e.method.predict(trained, clean, len(trained)), trained)
    assert torch.equal(e.method.predict(trained, clean, 3), trained[:3])
