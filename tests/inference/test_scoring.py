"""Scoring a split: the same numbers by any route, each image decoded once."""

import numpy as np
import pytest

from scob.data.readers import open_split
from scob.data.split import Split
from scob.inference.model import Scob
from scob.inference.scoring import ScoringOptions, score_over_processes, score_split, score_together
from support.small_model import Small


@pytest.fixture(scope="module")
def split() -> Split:
    return open_split("scenes:20x64", "train")


@pytest.fixture(scope="module")
def model(small: Small) -> Scob:
    return Scob.from_pretrained(small.run, "cpu")


def test_scores_are_those_of_single_batches_and_progress_is_told(model: Scob, split: Split) -> None:
    heard: list[tuple[int, int]] = []
    scores = score_split(model, split, 8, lambda *counts: heard.append(counts))
    pixels = np.stack([split.images.load(row, model.size) for row in range(len(split))])
    expected = np.concatenate([model.scores(pixels[start : start + 8]) for start in range(0, 20, 8)])
    assert (scores == expected).all() and heard == [(8, 20), (16, 20), (20, 20)]


def test_several_models_share_the_decoding(model: Scob, split: Split) -> None:
    loaded: list[int] = []

    class Counting:
        def __len__(self) -> int:
            return len(split.images)

        def load(self, index: int, size: int | None = None) -> np.ndarray:
            loaded.append(index)
            return split.images.load(index, size)

        def where(self, index: int) -> str:
            return split.images.where(index)

    counted = Split(split.name, split.labels, Counting())
    one, two = score_together([model, model], counted, 8)
    assert (one == two).all() and sorted(loaded) == list(range(20))


def test_the_route_of_evaluate_gives_the_same_scores(model: Scob, split: Split) -> None:
    heard: list[tuple[int, int]] = []
    scoring = ScoringOptions(batch=8, progress=lambda *counts: heard.append(counts))
    scores = score_over_processes(model.network, model.card, split, scoring).numpy()
    assert np.allclose(scores, score_split(model, split, 8), atol=1e-5) and heard[-1] == (20, 20)
    mirrored = score_over_processes(model.network, model.card, split, ScoringOptions(batch=8, mirror=True)).numpy()
    assert not np.allclose(mirrored, scores, atol=1e-5)
