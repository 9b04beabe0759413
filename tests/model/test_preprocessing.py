"""Each backbone's own mean and deviation."""

import json
from pathlib import Path

import numpy as np
import pytest

from scob.errors import UserError
from scob.model.preprocessing import normalisation, preprocessing

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
OWN = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}


def test_a_folders_own_file_is_used(tmp_path: Path) -> None:
    assert preprocessing(str(tmp_path)) == IMAGENET
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(OWN))
    assert preprocessing(str(tmp_path)) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@pytest.mark.parametrize("stored", ["{}", "[]", "{", '{"image_mean": [0, 0], "image_std": [1, 1]}',
                                    '{"image_mean": [0, 0, 0], "image_std": [1, 0, 1]}'])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, stored: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(stored)
    with pytest.raises(UserError, match=r"preprocessor_config\.json"):
        preprocessing(str(tmp_path))


def test_a_processor_that_also_reads_text_is_understood(tmp_path: Path) -> None:
    (tmp_path / "processor_config.json").write_text('{"processor_class": "CLIPProcessor"}')
    assert preprocessing(str(tmp_path)) == IMAGENET
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": OWN}))
    assert preprocessing(str(tmp_path))[0] == (0.1, 0.2, 0.3)


def test_a_hub_name_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--somebody--net" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text('{"model_type": "clip"}')
    assert preprocessing("somebody/net")[0][0] == pytest.approx(0.48145466)
    (snapshot / "preprocessor_config.json").write_text(json.dumps(OWN))
    assert preprocessing("somebody/net") == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@pytest.mark.parametrize(("kind", "mean"), [("siglip2", 0.5), ("vit", 0.5), ("clip", 0.48145466), ("resnet", 0.485)])
def test_without_a_file_the_kind_of_model_decides(tmp_path: Path, kind: str, mean: float) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    assert preprocessing(str(tmp_path))[0][0] == mean


@pytest.mark.parametrize(
    "stored",
    [OWN, OWN | {"rescale_factor": 1 / 127.5}, OWN | {"do_normalize": False}, OWN | {"do_rescale": False}],
)
def test_it_does_what_the_processor_of_transformers_does(stored: dict[str, object]) -> None:
    from transformers import ViTImageProcessor

    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    theirs = ViTImageProcessor(**stored, do_resize=False)(pixels, return_tensors="np")["pixel_values"][0]
    mean, std = (np.array(numbers).reshape(3, 1, 1) for numbers in normalisation(stored, Path("x")))
    ours = (pixels.transpose(2, 0, 1) / 255 - mean) / std
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
