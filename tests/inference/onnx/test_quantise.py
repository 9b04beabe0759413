"""int8: smaller, close to fp32, and measured; linear layers rewritten as convolutions."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info

from scob.inference.onnx.export import ExportCheck, export
from scob.inference.onnx.quantise import kept_in_fp32, linear_as_convolution
from scob.inference.onnx.runtime import OnnxModel
from scob.training.train import train
from support.small_model import Small, small_config


def test_int8_is_smaller_close_and_measured(small: Small, exported: Path, tmp_path: Path) -> None:
    rows = [f"{f.relative_to(small.photos.parent)},{f.parent.name}" for f in small.files]
    table = small.photos.parent / "val.csv"
    table.write_text("\n".join(["image,label", *rows]))
    made = export(
        small.run,
        tmp_path / "int8.onnx",
        int8=True,
        calibration=[small.photos],
        comparison=ExportCheck(source=str(table)),
    )
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


def test_photographs_are_exported_and_quantised_without_fp32_islands(small: Small, tmp_path: Path) -> None:
    """ReLU6 goes into the scales, residual sums are in int8, and how much to pad is known in advance."""
    settings = {"backbone": "photographs", "width": 32, "heads": 2, "layers": 1, "feedforward": 32, "projection": 16}
    config = small_config(small.backbone, "scenes:32x64", model=settings, train={"epochs": 1, "holdout": 0.0})
    config.train.select = "last"
    train(config, tmp_path / "run")
    plain = export(tmp_path / "run", tmp_path / "fp32.onnx")
    assert plain.difference < 1e-4
    made = export(tmp_path / "run", tmp_path / "int8.onnx", int8=True, calibration=[small.photos])
    assert made.bytes < 0.35 * plain.bytes
    assert made.int8_difference is not None and made.int8_difference < 0.15
    graph = onnx.load(str(made.path)).graph
    operators = [node.op_type for node in graph.node]
    assert "Clip" not in operators and operators.count("Pad") <= 5  # before the five convolutions with a stride
    maker = {output: node for node in graph.node for output in node.output}
    backbone = [node for node in graph.node if node.op_type in ("Conv", "Add") and "/backbone/" in node.name]
    assert all(node.input[1] not in maker for node in graph.node if node.op_type == "Pad")
    assert sum(node.op_type == "Add" for node in backbone) == 9  # blocks that add their input
    assert all(maker[node.input[0]].op_type == "DequantizeLinear" for node in backbone[1:])


def test_of_matrices_that_read_vectors_only_the_classifier_stays_in_fp32(small: Small, tmp_path: Path) -> None:
    """With pre-norm, the last matrix of each SMT reads one vector per image, as the classifier does."""
    settings = {"width": 32, "heads": 2, "layers": 1, "feedforward": 32, "projection": 16, "norm": "pre"}
    config = small_config(small.backbone, "scenes:32x64", model=settings, train={"epochs": 1, "holdout": 0.0})
    config.train.select = "last"
    train(config, tmp_path / "run")
    graph = onnx.load(str(export(tmp_path / "run", tmp_path / "fp32.onnx").path)).graph
    matrices = [node for node in graph.node if node.op_type == "Gemm"]
    kept = set(kept_in_fp32(graph)) & {node.name for node in matrices}
    shapes = {w.name: tuple(w.dims) for w in graph.initializer}
    assert len(matrices) == 3
    assert [shapes[node.input[1]] for node in matrices if node.name in kept] == [(16, 64)]  # classes, both SMTs


def test_a_linear_part_is_exported_and_both_classifiers_stay_in_fp32(small: Small, tmp_path: Path) -> None:
    settings = {"width": 32, "heads": 2, "layers": 1, "feedforward": 32, "projection": 16, "linear": True}
    config = small_config(small.backbone, "scenes:32x64", model=settings, train={"epochs": 1, "holdout": 0.0})
    config.train.select = "last"
    train(config, tmp_path / "run")
    plain = export(tmp_path / "run", tmp_path / "fp32.onnx")
    assert plain.difference < 1e-4
    graph = onnx.load(str(plain.path)).graph
    shapes = {w.name: tuple(w.dims) for w in graph.initializer}
    kept = set(kept_in_fp32(graph))
    classifiers = [node for node in graph.node if node.op_type == "Gemm" and shapes[node.input[1]][0] == 16]
    assert "TopK" in [node.op_type for node in graph.node]
    assert len(classifiers) == 2 and all(node.name in kept for node in classifiers)
    made = export(tmp_path / "run", tmp_path / "int8.onnx", int8=True, calibration=[small.photos])
    assert made.int8_difference is not None and made.int8_difference < 0.15


def test_linear_layers_as_convolutions_give_the_same(exported: Path, tmp_path: Path) -> None:
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


def test_a_matrix_that_is_not_a_linear_layer_over_cells_stays() -> None:
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
