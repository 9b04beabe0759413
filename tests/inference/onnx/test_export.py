"""Exporting: one file that agrees with torch, and is not written if it does not."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from scob.errors import UserError
from scob.inference.model import InferenceOptions, Scob
from scob.inference.onnx.export import ExportCheck, export
from scob.inference.predict import predict
from support.small_model import Small


@pytest.fixture(scope="module")
def hundred(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred files of many sizes, as JPEG, PNG and WebP, some of them turned by EXIF."""
    folder = tmp_path_factory.mktemp("hundred")
    random = np.random.default_rng(0)
    for number in range(100):
        picture = Image.open(small.files[number % len(small.files)]).convert("RGB")
        picture = picture.resize((int(random.integers(20, 400)), int(random.integers(20, 400))))
        exif = picture.getexif()
        exif[0x0112] = 1 + number % 8
        picture.save(folder / f"{number:03d}.{('jpg', 'png', 'webp')[number % 3]}", exif=exif)
    return folder


def scores_of(path: Path) -> list[list[float]]:
    """The score of every class, (N, L)."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [[score for column, score in row.items() if column.startswith("score:")] for row in rows]


def test_torch_and_onnx_agree_on_the_same_hundred_files(
    small: Small, exported: Path, hundred: Path, tmp_path: Path
) -> None:
    found = []
    for model in (small.run, exported):
        out = tmp_path / f"{Path(model).name}.jsonl"
        assert (
            predict(model, [hundred], out, "jsonl", include_scores=True, running=InferenceOptions(device="cpu"))[
                "images"
            ]
            == 100
        )
        found.append(np.array(scores_of(out)))
    assert found[0].shape == (100, 16) and np.abs(found[0] - found[1]).max() <= 1e-3
    assert found[0].std() > 1e-3  # the hundred are not all alike to the model


def test_the_metadata_says_how_to_prepare_an_image(exported: Path, small: Small) -> None:
    stored = {p.key: p.value for p in onnx.load(str(exported)).metadata_props}
    preprocessing = json.loads(stored["preprocessing"])
    assert preprocessing["size"] == 64 and "bilinear" in preprocessing["resize"]
    assert json.loads(stored["classes"]) == list(Scob.from_pretrained(small.run, "cpu").classes)
    assert json.loads(stored["labels"])["fingerprint"]


def test_a_file_that_differs_is_refused_and_not_written(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="differs from torch"):
        export(small.run, tmp_path / "model.onnx", comparison=ExportCheck(tolerance=-1.0))
    assert not list(tmp_path.iterdir())


def test_labels_that_cannot_measure_are_refused_before_the_export(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="list every class of each image in a table"):
        export(small.run, tmp_path / "model.onnx", comparison=ExportCheck(source=str(small.photos)))
    assert not list(tmp_path.iterdir())


def test_int8_without_images_takes_those_of_the_run_if_there_is_one(small: Small, tmp_path: Path) -> None:
    made = export(small.run, tmp_path / "model.onnx", int8=True)
    assert made.int8 and made.int8_difference is not None and made.int8_difference < 0.1
    with pytest.raises(UserError, match="--calibration"):
        export(small.run / "model", int8=True)
