"""A served model says what `scob predict` says."""

from pathlib import Path

import pytest

from scob.errors import UserError
from scob.inference.model import load_model
from scob.inference.onnx.export import export
from scob.inference.predict import predict_images
from scob.inference.predictions import NamingRule
from scob.inference.web.limits import Limits
from scob.inference.web.service import Service
from scob.inference.web.uploads import Upload
from support.small_model import Small


def test_the_same_as_predict_and_a_broken_image_does_not_stop_the_others(small: Small) -> None:
    service = Service.open(small.run, "cpu")
    files = small.files[:18]  # more than a batch
    uploads = [Upload(str(f), f.read_bytes()) for f in files]
    found = service.predict(
        [*uploads[:9], Upload("bad", b"no"), Upload("gone", b"", "why"), *uploads[9:]], NamingRule(3)
    )
    assert [found[9]["error"], found[10]["error"]] == ["this is not an image of a known kind", "why"]
    expected = predict_images(load_model(small.run, "cpu"), [str(f) for f in files], NamingRule(3))
    for got, want in zip([*found[:9], *found[11:]], expected, strict=True):
        assert (got["image"], got["labels"]) == (want.image, list(want.labels))
        assert got["scores"] == pytest.approx(want.scores, abs=1e-5) and got["error"] is None


def test_maps_come_with_boxes(small: Small) -> None:
    service = Service.open(small.run, "cpu")
    [found] = service.predict([Upload("a", small.files[0].read_bytes())], NamingRule(2), maps=True)
    assert len(found["boxes"]) == len(found["maps"]) == 2
    for boxes, picture in zip(found["boxes"], found["maps"], strict=True):
        assert bool(boxes) == bool(picture)
        assert picture is None or picture.startswith("data:image/jpeg;base64,")


def test_an_onnx_file_has_no_maps(small: Small, tmp_path: Path) -> None:
    export(small.run, tmp_path / "m.onnx")
    service = Service.open(tmp_path / "m.onnx", limits=Limits(megapixels=0.001))
    assert not service.about()["maps"]
    with pytest.raises(UserError, match="an ONNX file has scores only"):
        service.predict([Upload("a", b"")], maps=True)
    [found] = service.predict([Upload("a", small.files[0].read_bytes())])
    assert found["error"] == "it has more than 0.001 million pixels"
