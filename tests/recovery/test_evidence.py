"""Evidence: foregrounds of pairs, and the confirmed instances most like them."""

import numpy as np
import pytest
import torch

from scob.algorithm.ipt import InstancePriorityTree
from scob.data.readers import open_split
from scob.inference.model import Scob
from scob.inference.scoring import score_split
from scob.recovery.evidence import ConfirmedInstances, foregrounds
from scob.recovery.images import ScoredImages
from support.small_model import Small


@pytest.fixture(scope="module")
def model(small: Small) -> Scob:
    return Scob.from_pretrained(small.run, "cpu")


@pytest.fixture(scope="module")
def known(model: Scob) -> ScoredImages:
    split = open_split("scenes:20x64", "train")
    return ScoredImages(split, split.labels.single_positive(0), score_split(model, split))


def test_pairs_come_back_in_their_order_whatever_the_batch(model: Scob, known: ScoredImages) -> None:
    pairs = [(3, 1), (0, 2), (3, 0), (1, 1)]
    images, scores = known.split.images, known.scores
    places, vectors = foregrounds(model, images, scores, pairs, batch=2)
    assert len(places) == len(vectors) == 4 and torch.allclose(vectors.norm(dim=1), torch.ones(4), atol=1e-5)
    for row in (0, 1, 3):  # one image at a time
        numbers = [n for n, pair in enumerate(pairs) if pair[0] == row]
        alone, own = foregrounds(model, images, scores, [pairs[n] for n in numbers])
        for n, place, vector in zip(numbers, alone, own, strict=True):
            assert (place is None) == (places[n] is None) and torch.allclose(vectors[n], vector, atol=1e-3)
            assert place is None or np.allclose(place.heat, places[n].heat, atol=1e-4)


def test_only_images_known_to_show_a_class_confirm_it(model: Scob, known: ScoredImages) -> None:
    values = known.observed.values
    classes = {int(c) for c in values.argmax(axis=1)[:5]}
    confirmed = ConfirmedInstances.gather(model, known, classes)
    assert confirmed is not None and len(confirmed.names) == int((values[:, sorted(classes)] == 1).sum())
    row_of = {name: row for row, name in enumerate(known.observed.images)}
    for c in classes:
        near = confirmed.nearest(c, torch.nn.functional.normalize(torch.ones(model.network.dimension), dim=0), "")
        assert near and all(values[row_of[name], c] == 1 and 0 <= score <= 1 for name, score in near)


def test_a_class_nobody_confirmed_has_no_instances(model: Scob, known: ScoredImages) -> None:
    missing = np.flatnonzero((known.observed.values != 1).all(axis=0))
    assert ConfirmedInstances.gather(model, known, set(missing[:1].tolist())) is None


def test_the_most_alike_come_first_and_the_image_itself_is_left_out() -> None:
    tree = InstancePriorityTree(classes=2, capacity=4, dimension=2, images=3)
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    tree.insert(torch.zeros(3, dtype=torch.int64), torch.tensor([0.1, 0.2, 0.3]), torch.arange(3), vectors)
    confirmed = ConfirmedInstances(tree, ("a", "b", "c"))
    assert confirmed.nearest(0, vectors[0], "a") == (("b", pytest.approx(0.6)), ("c", pytest.approx(0.0)))
    assert confirmed.nearest(0, vectors[0], "x", count=1) == (("a", pytest.approx(1.0)),)
    assert confirmed.nearest(1, vectors[0], "a") == ()
