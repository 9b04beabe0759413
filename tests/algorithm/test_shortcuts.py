"""What a CPU leaves out of a step changes nothing: the same weights and tree with and without each shortcut."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import scob.algorithm.step_views
import scob.model.visible_cells
from scob.algorithm.cam import find_power
from scob.algorithm.ipt import InstancePriorityTree
from scob.algorithm.known_powers import KnownPowers
from scob.model.visible_cells import Pooled
from support.runs import step_epoch

Patch = pytest.MonkeyPatch
Uses = list[int]
SETTINGS = (
    (),  # masks by `spread`, from a pass without dropout; training with dropout
    ("scob.cam_dropout=true", "scob.cam_source=each"),  # as it was before
    ("train.feature_cache=host", "model.norm=pre"),
    ("scob.contrast=random", "scob.mask_classification=true", "model.dropout=0"),
)


def compute_every_strong_view(patch: Patch, saved: Uses) -> None:
    own = scob.algorithm.step_views.rows_to_compute

    def every_row(recoloured: Tensor, turned: Tensor | None) -> Tensor:
        saved.append(len(recoloured) - len(own(recoloured, turned)))
        return torch.arange(len(recoloured))

    patch.setattr(scob.algorithm.step_views, "rows_to_compute", every_row)


def encode_what_the_tree_drops(patch: Patch, saved: Uses) -> None:
    own = InstancePriorityTree.insert

    def insert(self: InstancePriorityTree, labels: Tensor, scores: Any, ids: Tensor, features: Any) -> None:
        if isinstance(features, Tensor):
            return own(self, labels, scores, ids, features)
        own(self, labels, scores, ids, features(slice(None)))
        saved.append(int((~torch.isin(ids, self.ids)).sum()))
        return None

    patch.setattr(InstancePriorityTree, "insert", insert)


def mask_hidden_cells(patch: Patch, saved: Uses) -> None:
    def as_on_a_gpu(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor) -> Tensor:
        saved.append(int((~seen).sum()))
        return pooled(cells, position, seen)

    patch.setattr(scob.model.visible_cells, "_packed", as_on_a_gpu)


def two_groups(patch: Patch, saved: Uses) -> None:
    own = scob.model.visible_cells._in_two_groups

    def padded(pooled: Pooled, cells: Tensor, position: Tensor, seen: Tensor) -> Tensor:
        saved.append(1)
        return own(pooled, cells, position, seen)

    patch.setattr(scob.model.visible_cells, "_packed", padded)


def find_every_power(patch: Patch, saved: Uses) -> None:
    def found_again(self: KnownPowers, cosine: Tensor, rows: Tensor, flip: Tensor) -> Tensor:
        saved.append(int((~self.table[2 * rows + flip].isnan()).sum()))
        self.table[2 * rows + flip] = 0.0  # known from now on
        return find_power(cosine)

    patch.setattr(KnownPowers, "look_up", found_again)


def state_after(experiment: Any, epochs: int) -> dict[str, Tensor]:
    for epoch in range(epochs):
        step_epoch(experiment, epoch)
    return {name: value.clone() for name, value in experiment.method.state_dict().items()}


@pytest.mark.parametrize(
    ("without", "words"),
    [
        *product((compute_every_strong_view, encode_what_the_tree_drops, two_groups), SETTINGS),
        # Dropout draws for the cells that are encoded, so only without it can they be others.
        *((mask_hidden_cells, (*words, "model.dropout=0")) for words in SETTINGS),
        (find_every_power, ("train.feature_cache=host", "model.norm=pre")),
    ],
)
def test_a_run_with_a_shortcut_is_the_run_without_it(
    experiment_of: Any, without: Callable[[Patch, Uses], None], words: tuple[str, ...], monkeypatch: Patch
) -> None:
    words = (
        "train.batch=16",
        "scob.contrasted=0.8",
        "scob.capacity=2",
        "scob.negatives=2",
        *words,
    )  # a tree that drops some
    shortened, saved = state_after(experiment_of(*words), 4), Uses()
    without(monkeypatch, saved)
    whole = state_after(experiment_of(*words), 4)
    assert sum(saved) > 0  # the shortcut was in use
    for name, value in whole.items():
        if value.is_floating_point():
            torch.testing.assert_close(shortened[name], value, atol=1e-4, rtol=0, msg=name)
    assert torch.equal(shortened["tree.ids"], whole["tree.ids"])
    assert torch.equal(shortened["bank.packed"], whole["bank.packed"])  # the masks
