"""Known powers are the powers that would be found, each found once."""

import pytest
import torch

import scob.algorithm.known_powers
from scob.algorithm.cam import find_power, likeness
from scob.algorithm.known_powers import KnownPowers


def test_each_power_is_found_once_and_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Image and mirror image have their own; the batch that a power is found in does not matter."""
    asked: list[int] = []

    def counted(cosine: torch.Tensor) -> torch.Tensor:
        asked.append(len(cosine))
        return find_power(cosine)

    monkeypatch.setattr(scob.algorithm.known_powers, "find_power", counted)
    torch.manual_seed(0)
    maps = torch.randn(5, 2, 8, 6, 6) * torch.rand(5, 2, 8, 1, 1)  # images, mirrored or not
    powers = KnownPowers(5)
    for rows, flip in (([0, 1, 2], [0, 1, 0]), ([2, 4, 1], [0, 1, 0]), ([1, 2, 0], [1, 0, 0])):
        index, turned = torch.tensor(rows), torch.tensor(flip).bool()
        features = maps[index, turned.long()]
        found = likeness(
            features, find=lambda cosine, index=index, turned=turned: powers.look_up(cosine, index, turned)
        )
        assert torch.equal(found, likeness(features))
    assert asked == [3, 2]


def test_padding_has_a_place_of_its_own() -> None:
    powers, cosine = KnownPowers(2), torch.rand(2, 4, 4)
    found = powers.look_up(cosine, torch.tensor([2, 2]), torch.tensor([False, True]))
    assert torch.equal(found, find_power(cosine))
    assert powers.table[:4].isnan().all()
