"""The embedded ImageNet backbone: small, loadable offline, and with the weights that were measured."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open

from scob.model.backbone import Backbone
from scob.model.embedded import backbone_path
from scob.model.load_backbone import load_backbone
from scob.model.preprocessing import preprocessing

STORED = [0, 0, 0, 0]
FOLDER = backbone_path("photographs")


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return load_backbone("photographs")


def test_it_is_small_and_stored_in_half_precision_with_its_licence() -> None:
    weights = FOLDER / "model.safetensors"
    assert weights.stat().st_size <= 10e6
    with safe_open(weights, framework="pt") as file:
        kinds = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 (not a dict)
    assert kinds <= {torch.float16, torch.int64}
    assert "Apache License, Version 2.0" in (FOLDER / "NOTICE").read_text()


def test_its_inputs_are_normalised_in_its_own_way() -> None:
    """(pixel - 127) / 128, so that 127 becomes 0 and 255 becomes 1."""
    mean, std = (torch.tensor(numbers) for numbers in preprocessing("photographs"))
    assert torch.allclose((torch.tensor(127 / 255) - mean) / std, torch.zeros(3), atol=1e-5)
    assert torch.allclose((torch.tensor(255 / 255) - mean) / std, torch.ones(3), atol=1e-5)


def test_it_gives_the_two_stages_in_full_precision(backbone: Backbone) -> None:
    assert {p.dtype for p in backbone.parameters()} == {torch.float32}
    assert backbone.channels == (112, 1280) and backbone.grids(224) == ((14, 14), (7, 7))


def test_its_features_are_those_that_were_measured(backbone: Backbone) -> None:
    """Sums over a picture of waves; a changed layer, weight or padding changes them."""
    down, across = torch.meshgrid(torch.arange(96.0), torch.arange(96.0), indexing="ij")
    picture = torch.stack([torch.sin(down / 7), torch.cos(across / 5), torch.sin((down + across) / 11)])[None]
    third, fourth = backbone(picture)
    sums = [float(m.abs().mean()) for m in (third, fourth)] + [float(third[0, :, 2, 3].std()), float(fourth.std())]
    np.testing.assert_allclose(sums, STORED, rtol=2e-3)


def test_photographs_of_a_thing_are_closer_to_each_other(backbone: Backbone) -> None:
    """On real photographs, if they are here: the nearest other image by stage 4 shows the same class far above chance."""
    voc = next((path for path in (Path("data/VOC2007"), Path("../shared/data/VOC2007")) if path.is_dir()), None)
    if voc is None:
        pytest.skip("VOC 2007 is not in data/VOC2007")
    from scob.data.readers import read_split
    from scob.data.split import ReadOptions

    split = read_split(str(voc), "val", ReadOptions())
    single = (split.labels.values == 1).sum(1) == 1
    names = ("aeroplane", "bird", "bus", "cat", "train", "sheep")
    rows, classes = [], []
    for name in names:
        chosen = np.flatnonzero(single & (split.labels.values[:, split.labels.classes.index(name)] == 1))[:5]
        rows += list(chosen)
        classes += [name] * len(chosen)
    mean, std = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in preprocessing("photographs"))
    pixels = torch.from_numpy(np.stack([split.images.load(int(row), 160) for row in rows])).permute(0, 3, 1, 2)
    with torch.inference_mode():
        features = F.normalize(backbone((pixels / 255 - mean) / std)[1].mean((2, 3)))
    nearest = (features @ features.T).fill_diagonal_(-1).argmax(1)
    right = np.mean([classes[row] == classes[int(other)] for row, other in enumerate(nearest)])
    assert right > 0.6
