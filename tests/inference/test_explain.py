"""Explaining: maps, masks, boxes and the files they are written to."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from pycocotools import mask as coco

from scob.algorithm.cam import explain_classes
from scob.errors import UserError
from scob.inference.explain import (
    Explanation,
    box_of,
    enlarge,
    explain,
    overlay,
    pair_maps,
    rle,
    unique_names,
    without_specks,
)
from scob.inference.predict import Scob
from support.small_model import Small


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_run_lengths_come_back_as_the_mask_and_the_box_just_holds_it(mask: np.ndarray) -> None:
    packed = rle(mask)
    assert (coco.decode({**packed, "counts": packed["counts"].encode()}) == mask).all()
    box = box_of(mask)
    assert (box is None) == (not mask.any())
    if box is not None:
        height, width = mask.shape
        x0, y0, x1, y1 = (round(side * length) for side, length in zip(box, (width, height) * 2, strict=True))
        assert mask[y0:y1, x0:x1].sum() == mask.sum()
        assert mask[y0].any() and mask[y1 - 1].any() and mask[:, x0].any() and mask[:, x1 - 1].any()


@given(arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.sampled_from([0.0, 0.4, 0.9])))
def test_specks_leave_the_map_and_parts_as_large_as_the_largest_stay(heat: np.ndarray) -> None:
    from scipy.ndimage import label

    clean = without_specks(heat, 0.5, 0.5)
    parts, count = label(heat >= 0.5, np.ones((3, 3)))
    sizes = [int((parts == n).sum()) for n in range(1, count + 1)]
    for n, size in enumerate(sizes, 1):
        assert np.allclose(clean[parts == n], 0.9 if size >= 0.5 * max(sizes) else 0)
    assert (clean[heat < 0.5] == heat[heat < 0.5]).all()


def test_a_map_grows_without_moving() -> None:
    heat = np.zeros((4, 4), np.float32)
    heat[1, 2] = 1
    grown = enlarge(heat, 40, 80)
    y, x = (grown > 0.9).nonzero()
    assert abs(y.mean() + 0.5 - 15) < 1 and abs(x.mean() + 0.5 - 50) < 1


def test_pairs_in_pieces_are_the_maps_of_single_images(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    pixels = np.stack([np.asarray(Image.open(f).convert("RGB").resize((64, 64))) for f in small.files[:3]])
    images = model.prepare(pixels)
    with torch.no_grad():
        features = model.network.backbone(images)
    rows, classes = torch.tensor([0, 0, 2, 1, 2]), torch.tensor([1, 5, 0, 3, 7])
    whole = pair_maps(model.network, features, rows, classes)
    monkeypatch.setattr(sys.modules["scob.inference.explain"], "PAIRS", 2)
    pieces = pair_maps(model.network, features, rows, classes)
    assert torch.allclose(whole.heat, pieces.heat, atol=1e-5)
    for number, (row, c) in enumerate(zip(rows.tolist(), classes.tolist(), strict=True)):
        third, fourth = explain_classes(model.network, images[row : row + 1], torch.tensor([c]))
        coarse = torch.nn.functional.interpolate(fourth[:, None], third.shape[1:], mode="bilinear")[:, 0]
        both = (third + coarse)[0]
        assert torch.allclose(whole.heat[number], both / both.max().clamp(min=1e-9), atol=1e-4)


@pytest.mark.parametrize("masks", ["png", "rle"])
def test_overlays_and_masks_have_the_image_size(small: Small, tmp_path: Path, masks: str) -> None:
    wide = tmp_path / "wide.png"
    Image.open(small.files[0]).resize((90, 50)).save(wide)
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"")
    counts = explain(small.run, [wide, bad], tmp_path / "out", masks, classes=["tree", "car"], device="cpu")
    assert counts == {"images": 2, "explained": 2, "broken": 1, "skipped": 0}
    tree, car, broken = json.loads((tmp_path / "out" / "explanations.json").read_text())
    assert (tree["class"], car["class"]) == ("tree", "car") and "empty" in broken["error"]
    with Image.open(tmp_path / "out" / tree["overlay"]) as drawn:
        assert drawn.size == (90, 50)
    if masks == "png":
        with Image.open(tmp_path / "out" / tree["mask"]) as drawn:
            assert drawn.size == (90, 50) and set(np.unique(np.asarray(drawn))) <= {0, 255}
    else:
        assert tree["mask"]["size"] == [50, 90]


def test_python_explains_the_predicted_classes(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    found = model.explain(small.files[:2], topk=2)
    named = model.predict(small.files[:2], topk=2)
    assert [(e.image, e.label) for e in found] == [(p.image, label) for p in named for label in p.labels]
    assert all(e.heat is not None and e.heat.min() >= 0 and e.heat.max() <= 1 for e in found)


def test_an_unknown_class_is_named_with_its_neighbour(small: Small) -> None:
    with pytest.raises(UserError, match=r"no class 'tre'.*Did you mean 'tree'"):
        Scob.from_pretrained(small.run, "cpu").explain(small.files[0], classes=["tre"])


def test_an_overlay_is_warm_where_the_map_is() -> None:
    heat = np.zeros((2, 2), np.float32)
    heat[1, 0] = 1
    drawn = np.asarray(overlay(np.full((80, 80, 3), 100, np.uint8), Explanation("i", "c", 0.5, heat, None)))
    assert drawn[75, 5, 0] > 180 and (drawn[35, 75] == 100).all()


def test_file_names_are_unique_on_every_file_system() -> None:
    names = unique_names(["a", "b", "c", "d"], ["x/1", "X_1", "x-2", "x?1"])
    assert len({n.lower() for n in names.values()}) == 4 and not any("/" in n for n in names.values())
