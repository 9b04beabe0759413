"""Exporting: one file that says what torch says, refused where it does not, read without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info
from PIL import Image

from scob.errors import UserError
from scob.inference.onnx.export import export
from scob.inference.onnx.quantise import linear_as_convolution
from scob.inference.onnx.runtime import OnnxModel
from scob.inference.predict import Scob, predict
from support.small_model import Small

NO_TORCH = """
import sys
from scob.cli import build
build()(args=sys.argv[1:], standalone_mode=False)
assert "torch" not in sys.modules, "torch was imported"
"""


@pytest.fixture(scope="module")
def exported(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    made = export(small.run, path)
    assert made.difference < 1e-5 and made.bytes == path.stat().st_size
    assert [p.name for p in path.parent.iterdir()] == ["model.onnx"]  # one file, nothing half-written
    return path


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
    return [list(json.loads(line)["scores"].values()) for line in path.read_text().splitlines()]


def test_torch_and_onnx_agree_on_the_same_hundred_files(
    small: Small, exported: Path, hundred: Path, tmp_path: Path
) -> None:
    found = []
    for model in (small.run, exported):
        out = tmp_path / f"{Path(model).name}.jsonl"
        assert predict(model, [hundred], out, "jsonl", include_scores=True, device="cpu")["images"] == 100
        found.append(np.array(scores_of(out)))
    assert found[0].shape == (100, 16) and np.abs(found[0] - found[1]).max() <= 1e-3
    assert found[0].std() > 1e-3  # the hundred are not all alike to the model


def test_predicting_with_onnx_imports_no_torch(exported: Path, small: Small, tmp_path: Path) -> None:
    words = ["predict", str(exported), str(small.photos), "-o", str(tmp_path / "found.csv")]
    done = subprocess.run([sys.executable, "-c", NO_TORCH, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 25


def test_the_metadata_says_how_to_prepare_an_image(exported: Path, small: Small) -> None:
    stored = {p.key: p.value for p in onnx.load(str(exported)).metadata_props}
    preprocessing = json.loads(stored["preprocessing"])
    assert preprocessing["size"] == 64 and "bilinear" in preprocessing["resize"]
    assert json.loads(stored["classes"]) == list(Scob.from_pretrained(small.run, "cpu").classes)
    assert json.loads(stored["labels"])["fingerprint"]


def test_any_batch_size_goes(exported: Path) -> None:
    model = OnnxModel(exported)
    pixels = np.random.default_rng(0).integers(0, 256, (7, 64, 64, 3), dtype=np.uint8)
    whole = model.scores(pixels)
    assert np.allclose(whole, np.concatenate([model.scores(pixels[i : i + 1]) for i in range(7)]), atol=1e-5)


def test_a_file_that_differs_is_refused_and_not_written(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="differs from torch"):
        export(small.run, tmp_path / "model.onnx", tolerance=-1.0)
    assert not list(tmp_path.iterdir())


def test_int8_is_smaller_near_and_measured(small: Small, exported: Path, tmp_path: Path) -> None:
    rows = [f"{f.relative_to(small.photos.parent)},{f.parent.name}" for f in small.files]
    table = small.photos.parent / "val.csv"
    table.write_text("\n".join(["image,label", *rows]))
    made = export(small.run, tmp_path / "int8.onnx", int8=True, calibration=[small.photos], source=str(table))
    assert made.bytes < exported.stat().st_size
    assert made.int8_difference is not None and made.int8_difference < 0.1
    assert made.map_torch is not None and made.map_exported is not None
    assert 0 < made.map_torch <= 100 and abs(made.map_torch - made.map_exported) < 20
    stored = {p.key: p.value for p in onnx.load(str(made.path)).metadata_props}
    assert stored["precision"] == "int8"
    operators = [node.op_type for node in onnx.load(str(made.path)).graph.node]
    assert operators.count("QuantizeLinear") > 5
    assert operators.count("Relu") <= 1  # only that of the classifier, which stays in fp32; the others are in a scale
    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    assert OnnxModel(made.path).scores(pixels).shape == (3, 16)


def test_linear_layers_as_convolutions_say_the_same(exported: Path, tmp_path: Path) -> None:
    model = onnx.load(str(exported))
    before = [node.op_type for node in model.graph.node]
    linear_as_convolution(model)
    after = [node.op_type for node in model.graph.node]
    assert after.count("Conv") - before.count("Conv") == before.count("MatMul") - after.count("MatMul") == 8
    onnx.checker.check_model(model)
    onnx.save(model, str(tmp_path / "same.onnx"))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    same = OnnxModel(tmp_path / "same.onnx").scores(pixels)
    np.testing.assert_allclose(same, OnnxModel(exported).scores(pixels), atol=1e-6)


def test_a_matrix_that_is_no_linear_layer_over_cells_stays() -> None:
    shapes = {"w": (4, 4), "ww": (2, 4, 4), "b": (4,), "one": (1,)}
    fixed = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]

    def unchanged(shape: list[int], *nodes: onnx.NodeProto, results: tuple[str, ...] = ("y",)) -> bool:
        ends = [make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", *results)]
        for node in nodes:  # names are a courtesy
            node.ClearField("name")
        model = make_model(make_graph(nodes, "g", ends[:1], ends[1:], fixed))
        linear_as_convolution(model)
        onnx.checker.check_model(model, full_check=True)
        return list(model.graph.node) == list(nodes)

    start = make_node("Relu", ["x"], ["r"], "r")
    product, add = make_node("MatMul", ["r", "w"], ["m"], "m"), make_node("Add", ["m", "b"], ["y"], "y")
    assert not unchanged([2, 3, 4], start, product, add)
    assert unchanged([3, 4], start, product, add)  # no cells
    assert unchanged([2, 3, 5, 4], start, product, add)
    assert unchanged([2, 3, 4], start, product, make_node("Add", ["m", "r"], ["y"], "y"))  # no bias
    assert unchanged([2, 3, 4], start, product, make_node("Mul", ["m", "m"], ["y"], "y"))
    turned = make_node("Transpose", ["x"], ["r"], "r", perm=[0, 2, 1])
    assert unchanged([2, 4, 4], turned, product, add)
    assert unchanged([2, 3, 4], start, make_node("MatMul", ["r", "ww"], ["m"], "m"), add)  # a stack of matrices
    assert unchanged([2, 3, 4], start, product, make_node("Add", ["m", "one"], ["y"], "y"))  # one number for all
    seen_from_outside = make_node("Add", ["m", "b"], ["z"], "z"), make_node("Relu", ["z"], ["y"], "y")
    assert not unchanged([2, 3, 4], start, product, *seen_from_outside, results=("y", "z"))


def test_a_device_that_onnxruntime_does_not_know_is_refused(small: Small, tmp_path: Path) -> None:
    export(small.run, tmp_path / "model.onnx")
    with pytest.raises(UserError, match="does not run on 'foo': use auto, cpu or cuda"):
        OnnxModel(tmp_path / "model.onnx", device="foo")


def test_labels_that_cannot_measure_are_refused_before_the_export(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="list every class of each image in a table"):
        export(small.run, tmp_path / "model.onnx", source=str(small.photos))
    assert not list(tmp_path.iterdir())


def test_int8_without_images_takes_those_of_the_run_if_there_is_one(small: Small, tmp_path: Path) -> None:
    made = export(small.run, tmp_path / "model.onnx", int8=True)
    assert made.int8 and made.int8_difference is not None and made.int8_difference < 0.1
    with pytest.raises(UserError, match="--calibration"):
        export(small.run / "model", int8=True)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "damaged"), (b"not a model", "damaged"), (None, "there is no model")]
)
def test_a_damaged_onnx_file_is_an_error(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        OnnxModel(path)


def test_an_onnx_file_of_somebody_else_is_refused(exported: Path, tmp_path: Path) -> None:
    proto = onnx.load(str(exported))
    del proto.metadata_props[:]
    onnx.save(proto, str(tmp_path / "model.onnx"))
    with pytest.raises(UserError, match="not made by `scob export`"):
        OnnxModel(tmp_path / "model.onnx")
