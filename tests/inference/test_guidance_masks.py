"""Guidance masks of a trained network, and the segmentation at their grids."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scob.algorithm.cam import activation_maps, masks_of
from scob.data.split import ObjectMasks
from scob.inference.guidance_masks import (
    guidance_rates,
    guidance_settings,
    maps_of_pairs,
    observed_pairs,
    segmented_pairs,
    true_cells,
)
from scob.inference.model import Scob
from scob.labels import PRESENT, Labels
from scob.training.finished_run import FinishedRun

GRIDS = ((8, 8), (4, 4))


@pytest.fixture(scope="module")
def run(run_small: Callable[..., Path]) -> FinishedRun:
    return FinishedRun.open(run_small("data.evaluate=val", "train.epochs=1"))


def test_cells_are_max_pooled_and_void_leaves_open_only_what_shows_no_object() -> None:
    shown, void = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
    shown[0, 0] = void[0, 1] = void[7, 7] = True  # an object with its void border; void alone in the far corner
    truth, left_out = true_cells(ObjectMasks({3: shown}, void), 3, (2, 2))
    assert truth.tolist() == [[True, False], [False, False]]
    assert left_out.tolist() == [[False, False], [False, True]]


def test_observed_pairs_are_all_that_was_observed() -> None:
    labels = Labels(("a", "b"), ("x", "y", "z"), np.array([[1, 0], [0, 0], [1, 1]], np.int8))
    rows, classes = observed_pairs(labels)
    assert (rows.tolist(), classes.tolist()) == ([0, 2, 2], [0, 0, 1])


def test_segmentations_are_those_of_the_pairs(run: FinishedRun) -> None:
    masks = run.data.train.masks
    assert masks is not None
    rows, classes = observed_pairs(run.data.observed)
    pairs = segmented_pairs(masks, (rows, classes), GRIDS)
    assert len(pairs) == pairs.images == len(rows) == 40  # one label per scene, and every object has pixels
    assert pairs.truth[0].shape == (40, 8, 8) and pairs.void[1].shape == (40, 4, 4)
    first = masks.load(int(rows[7]))
    assert first is not None
    assert (pairs.truth[1][7] == true_cells(first, int(classes[7]), (4, 4))[0]).all()


def test_a_class_without_segmentation_is_left_out(run: FinishedRun) -> None:
    masks, labels = run.data.train.masks, run.data.train.labels
    assert masks is not None
    absent = np.array([int(np.flatnonzero(labels.values[row] != PRESENT)[0]) for row in range(3)])
    pairs = segmented_pairs(masks, (np.arange(3), absent), GRIDS)
    assert len(pairs) == pairs.images == 0 and pairs.truth[0].shape == (0, 8, 8)


def test_masks_are_those_of_the_training_step_for_each_pair_alone(run: FinishedRun) -> None:
    """In any order, with an image named twice: the masks of Eq. 3 by the run's settings, pair by pair."""
    model, split = Scob.from_pretrained(run.path, "cpu"), run.data.train
    settings = guidance_settings(run.config)
    rows, classes = np.array([5, 39, 0, 5]), np.array([2, 0, 1, 7])
    maps, masks = maps_of_pairs(model, settings, split, (rows, classes))
    for number, (row, label) in enumerate(zip(rows, classes, strict=True)):
        pixels = model.prepare(split.images.load(int(row), model.size)[None])
        with torch.no_grad():
            third, fourth = model.network.backbone(pixels)
        features = third.requires_grad_(), fourth.requires_grad_()
        alone = activation_maps(model.network.classify(features), features, torch.tensor([int(label)]), settings)
        expected = masks_of(alone, settings)
        for stage in (0, 1):
            assert torch.allclose(maps[stage][number], alone[stage][0].detach(), atol=1e-4)
            assert (masks[stage][number] == expected[stage][0]).float().mean() > 0.98


def test_rates_are_over_all_cells_and_every_image_is_reported(run: FinishedRun) -> None:
    model, split = Scob.from_pretrained(run.path, "cpu"), run.data.train
    assert split.masks is not None
    pairs = segmented_pairs(split.masks, observed_pairs(run.data.observed), model.card.grids)
    settings: Any = guidance_settings(run.config)
    seen: list[int] = []
    rates = guidance_rates(model, settings, split, pairs, progress=seen.append)
    assert sum(seen) == 40
    _, masks = maps_of_pairs(model, settings, split, (pairs.rows, pairs.labels))
    for stage in (0, 1):
        mask, truth = masks[stage].numpy(), pairs.truth[stage]
        assert rates[stage].precision == pytest.approx(100 * (mask & truth).sum() / max(1, mask.sum()))
        assert rates[stage].recall == pytest.approx(100 * (mask & truth).sum() / truth.sum())
