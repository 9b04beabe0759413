"""The one way from features to places: rivals, mirror images, order."""

import numpy as np
import pytest
import torch

from scob.data.images import decode
from scob.inference.class_maps import EXPLAINED, class_maps
from scob.inference.competition import places_of
from scob.inference.locate import RIVALS, Views, averaged_maps, locate, rivals, scored_views, views_of
from scob.inference.model import Scob
from support.small_model import Small


@pytest.fixture(scope="module")
def model(small: Small) -> Scob:
    return Scob.from_pretrained(small.run, "cpu")


@pytest.fixture(scope="module")
def pixels(model: Scob, small: Small) -> np.ndarray:
    return np.stack([decode(file, model.size) for file in small.files[:3]])


def test_every_asked_pair_gets_the_place_it_has_among_its_images_classes(model: Scob, pixels: np.ndarray) -> None:
    views, scores = views_of(model, pixels), model.scores(pixels)
    asked = [[2, 0], [], [1, 5, 3]]
    located = locate(model, views, scores, asked, EXPLAINED)
    assert len(located.heats) == len(located.places) == len(located.masks[0]) == 5
    expected, heats = [], []
    for row, own in enumerate(asked):
        if own:
            columns = [*own, *rivals(scores[row], model.thresholds, own)]
            rows = torch.full((len(columns),), row)
            one = class_maps(model.network, views.plain, rows, torch.tensor(columns))
            expected += places_of(one.heat.numpy(), scores[row, columns])[: len(own)]
            heats += list(one.heat.numpy()[: len(own)])
    assert np.allclose(located.heats, heats, atol=1e-4)
    for place, wanted in zip(located.places, expected, strict=True):
        assert (place is None) == (wanted is None)
        assert place is None or np.allclose(place.heat, wanted.heat, atol=1e-4)


def test_nothing_asked_is_nothing_computed(model: Scob, pixels: np.ndarray) -> None:
    located = locate(model, views_of(model, pixels), model.scores(pixels), [[], [], []], EXPLAINED)
    assert located.places == () and len(located.heats) == 0


def test_rivals_are_predicted_classes_that_nobody_asked_about() -> None:
    scores = np.array([0.9, 0.8, 0.2, 0.7], np.float32)
    half = np.full(4, 0.5, np.float32)
    assert rivals(scores, half, [1]) == [0, 3]
    assert rivals(scores, half, []) == []
    assert len(rivals(np.ones(20, np.float32), np.zeros(20, np.float32), [3])) == RIVALS


def test_a_mirror_image_has_the_mirrored_explanation(model: Scob, pixels: np.ndarray) -> None:
    rows, columns = torch.arange(3), torch.tensor([0, 4, 2])
    flipped = np.ascontiguousarray(pixels[:, :, ::-1])
    both = averaged_maps(model, views_of(model, pixels, mirror=True), rows, columns, EXPLAINED).heat
    turned = averaged_maps(model, views_of(model, flipped, mirror=True), rows, columns, EXPLAINED).heat
    assert torch.allclose(both, turned.flip(2), atol=1e-4)
    plain = averaged_maps(model, views_of(model, pixels), rows, columns, EXPLAINED).heat
    other = averaged_maps(model, views_of(model, flipped), rows, columns, EXPLAINED).heat.flip(2)
    assert not torch.allclose(plain, other, atol=1e-2)  # the averaging is what makes them agree
    mean = (plain + other) / 2
    assert torch.allclose(both, mean / mean.amax(dim=(1, 2), keepdim=True), atol=1e-4)


def test_a_mirror_image_costs_a_pass_only_if_asked_for(model: Scob, pixels: np.ndarray) -> None:
    passes = []
    handle = model.network.backbone.register_forward_hook(lambda *_: passes.append(1))
    views_of(model, pixels)
    assert len(passes) == 1
    assert isinstance(views_of(model, pixels, mirror=True), Views) and len(passes) == 3
    handle.remove()


def test_on_a_cpu_the_pass_that_gave_the_scores_is_the_one_differentiated(model: Scob, pixels: np.ndarray) -> None:
    passes = []
    handle = model.network.head.register_forward_hook(lambda *_: passes.append(1))
    all_views = views_of(model, pixels)
    expected = locate(model, all_views, model.scores(pixels), [[4, 2], [0], [1]], EXPLAINED)
    passes.clear()
    heats, scores = [], []
    for (views, line), own in zip(scored_views(model, pixels), [[4, 2], [0], [1]], strict=True):
        heats += list(locate(model, views, line, [own], EXPLAINED).heats)
        scores += list(line)
    handle.remove()
    assert len(passes) == 3 and np.allclose(scores, model.scores(pixels), atol=1e-5)
    assert np.allclose(heats, expected.heats, atol=1e-4)
