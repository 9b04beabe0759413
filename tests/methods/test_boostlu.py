"""Boosted cell scores against naive loops, and against the common heads where nothing is boosted."""

import pytest
import torch

from scob.config import ModelSettings
from scob.methods.boostlu import BoostedCells, boost

CHANNELS, GRIDS = (6, 10), ((8, 8), (4, 4))


def boosted(head: str, alpha: float) -> BoostedCells:
    torch.manual_seed(1)
    model = ModelSettings(head=head, width=16, heads=2, layers=1, feedforward=16, dropout=0.0)
    recipe = {"model": model.model_dump(mode="json"), "alpha": alpha, "classes": 3}
    return BoostedCells(CHANNELS, GRIDS, recipe).eval()


def features() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    return torch.randn(2, 6, 8, 8), torch.randn(2, 10, 4, 4)


def test_positive_scores_are_multiplied() -> None:
    assert boost(torch.tensor([-2.0, 0.0, 3.0]), 5.0).tolist() == [-2.0, 0.0, 15.0]


@pytest.mark.parametrize("head", ["smt", "cnn", "large-cnn", "linear"])
def test_without_a_boost_the_cells_say_what_the_pooled_head_says(head: str) -> None:
    """The mean of linear scores is the score of the mean."""
    module, both = boosted(head, 1.0), features()
    assert torch.allclose(module(both), module.scores(module.inner(both)), atol=1e-5)
    assert not torch.allclose(boosted(head, 5.0)(both), module(both), atol=1e-2)


@pytest.mark.parametrize("keep", [False, True])
def test_the_logit_is_the_mean_of_boosted_cells(keep: bool) -> None:
    module, both = boosted("linear", 5.0), features()
    mask = torch.zeros(2, 4, 4, dtype=torch.bool)
    mask[0, 1:3, 2:] = True  # the second image keeps nothing, and is read whole
    logits = module(both, (torch.zeros(2, 8, 8, dtype=torch.bool), mask) if keep else None)
    weight, bias = module.scores.weight, module.scores.bias
    for i in range(2):
        for c in range(3):
            scores = []
            for y in range(4):
                for x in range(4):
                    score = float(both[1][i, :, y, x] @ weight[c] + bias[c])
                    if not keep or i == 1 or mask[0, y, x]:
                        scores.append(5 * score if score > 0 else score)
            assert float(logits[i, c]) == pytest.approx(sum(scores) / len(scores), abs=1e-5)


def test_hidden_cells_do_not_reach_the_result() -> None:
    module, (third, fourth) = boosted("smt", 5.0), features()
    fine, coarse = torch.zeros(2, 8, 8, dtype=torch.bool), torch.zeros(2, 4, 4, dtype=torch.bool)
    fine[:, 2:6, 2:6], coarse[:, 1:3, 1:3] = True, True
    before = module((third, fourth), (fine, coarse))
    changed = (torch.where(fine[:, None], third, 9.0), torch.where(coarse[:, None], fourth, -9.0))
    assert torch.allclose(module(changed, (fine, coarse)), before, atol=1e-5)
    assert not torch.allclose(module(changed), module((third, fourth)), atol=1e-2)
