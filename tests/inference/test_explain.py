"""Explaining: the predicted classes or those asked for, and the files of `scob explain`."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.errors import UserError
from scob.inference.class_maps import MapSettings
from scob.inference.explain import ExplanationFiles, explain, explain_images
from scob.inference.model import InferenceOptions, Scob
from scob.inference.predictions import NamedPerImage
from support.small_model import Small


@pytest.mark.parametrize("masks", ["png", "rle"])
def test_overlays_and_masks_have_the_image_size(small: Small, tmp_path: Path, masks: str) -> None:
    wide = tmp_path / "wide.png"
    Image.open(small.files[0]).resize((90, 50)).save(wide)
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"")
    names = Scob.from_pretrained(small.run, "cpu").classes
    counts = explain(
        small.run, [wide, bad], tmp_path / "out", names, MapSettings(source="each"),
        files=ExplanationFiles(masks), running=InferenceOptions(device="cpu"),
    )  # fmt: skip
    *records, broken = json.loads((tmp_path / "out" / "explanations.json").read_text())
    clear = [record for record in records if record["clear_place"]]
    unclear = len(names) - len(clear)
    named = dict.fromkeys(names, 1)  # in how many images each class was explained
    expected = {"images": 2, "explained": len(names), "broken": 1, "skipped": 0, "unclear": unclear, "named": named}
    assert counts == expected
    assert [record["class"] for record in records] == list(names) and "empty" in broken["error"]
    with Image.open(tmp_path / "out" / records[0]["overlay"]) as drawn:
        assert drawn.size == (90, 50)
    assert clear and all(len(record["boxes"]) >= 1 and record["box"] == record["boxes"][0] for record in clear)
    if masks == "png":
        with Image.open(tmp_path / "out" / clear[0]["mask"]) as drawn:
            assert drawn.size == (90, 50) and set(np.unique(np.asarray(drawn))) <= {0, 255}
    else:
        assert clear[0]["mask"]["size"] == [50, 90]


def test_python_explains_the_predicted_classes(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    found = model.explain(small.files[:2], topk=2)
    named = model.predict(small.files[:2], topk=2)
    assert [(e.image, e.label) for e in found] == [(p.image, label) for p in named for label in p.labels]
    assert all(e.heat is not None and e.heat.min() >= 0 and e.heat.max() <= 1 for e in found)


def test_an_unknown_class_is_named_with_its_neighbour(small: Small) -> None:
    with pytest.raises(UserError, match=r"no class 'tre'.*Did you mean 'tree'"):
        Scob.from_pretrained(small.run, "cpu").explain(small.files[0], classes=["tre"])


def test_unknown_kinds_of_masks_and_maps_are_refused(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--masks is 'gif': use none, png or rle"):
        ExplanationFiles("gif")
    with pytest.raises(UserError, match=r"--cam is 'x': use sharp, grad, grad\+\+ or layer"):
        explain(small.run, small.files[:1], tmp_path, maps=MapSettings("x"))


def test_each_image_is_asked_about_its_own_classes(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    names = (("tree",), (), ("car", "person"))
    explained = list(explain_images(model, small.files[:3], NamedPerImage(names), batch=2))
    wanted = [(str(file), name) for file, own in zip(small.files, names, strict=False) for name in own]
    assert [(e.image, e.label) for e in explained] == wanted
    with pytest.raises(UserError, match="named for 3 images, but there are 2"):
        list(explain_images(model, small.files[:2], NamedPerImage(names)))
