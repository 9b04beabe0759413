"""A run built from its settings and data."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from scob.data.split import ArrayImages, ObjectMasks, Split
from scob.labels import Labels
from scob.parallel import Processes
from scob.training.build import build, make_problem, true_masks
from support.runs import same


class Squares:
    """Segmentation of 4 x 4 pixels: image 0 shows class 0 top left and class 1 bottom right; image 1 has none."""

    def load(self, index: int) -> ObjectMasks | None:
        if index:
            return None
        one, two = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
        one[0, 0], two[3, 3] = True, True
        return ObjectMasks({0: one, 1: two}, np.zeros((4, 4), bool))


@pytest.mark.parametrize(
    ("observed", "cells"), [([1, 0], [(0, 0)]), ([0, 1], [(1, 1)]), ([1, 1], [(0, 0), (1, 1)]), ([-1, 0], [])]
)
def test_true_masks_are_the_segmentation_of_observed_labels(observed: list[int], cells: list[tuple[int, int]]) -> None:
    labels = Labels(("a", "b"), ("x", "y"), np.array([observed, [1, 0]], np.int8))
    split = Split("train", labels, ArrayImages(np.zeros((2, 4, 4, 3), np.uint8), "image"), Squares())
    masks = true_masks(split, labels, ((2, 2), (1, 1)))
    assert masks is not None
    bank, segmented = masks
    third, fourth = bank.load(torch.tensor([0, 1]), torch.tensor([False, False]))
    assert [tuple(cell) for cell in third[0].nonzero().tolist()] == cells
    assert bool(fourth[0].any()) == bool(cells) and not third[1].any() and segmented == bool(cells)
    assert true_masks(replace(split, masks=None), labels, ((2, 2), (1, 1))) is None


def test_the_problem_ends_with_a_row_for_padding(experiment_of: Any) -> None:
    e = experiment_of("labels.k=2.5")
    problem = make_problem(e.config, e.data, e.plan, e.processes, e.inputs.grids)
    assert torch.equal(problem.observed[:-1], torch.from_numpy(e.data.observed.values))
    assert (problem.observed[-1] == 0).all() and problem.keys[-1] == 0
    assert (problem.k, problem.images, problem.steps_per_epoch, problem.true_masks) == (2.5, 40, 5, None)


def test_runs_with_a_frozen_backbone_may_share_their_inputs(configure: Any, scenes_of: Any) -> None:
    config = configure()
    data = scenes_of(config)
    first = build(config, data, Processes())
    assert build(configure("method=role"), data, Processes(), inputs=first.inputs).inputs is first.inputs
    trained = configure("model.freeze=none")
    own = build(trained, data, Processes())
    assert build(trained, data, Processes(), inputs=own.inputs).inputs is not own.inputs


def test_new_weights_depend_on_the_seed_alone(experiment_of: Any) -> None:
    torch.manual_seed(1)
    one = experiment_of().network.head.state_dict()
    torch.manual_seed(2)
    two, other = experiment_of().network.head.state_dict(), experiment_of("train.seed=1").network.head.state_dict()
    assert same(one, two) and not same(one, other)


def test_fp64_makes_every_part_double(experiment_of: Any) -> None:
    e = experiment_of("train.precision=fp64")
    assert {p.dtype for p in e.method.parameters()} == {torch.float64}
    assert e.scores("train").shape == (40, len(e.data.observed.classes))
