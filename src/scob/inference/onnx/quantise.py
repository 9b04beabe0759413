"""An exported network in 8 bits: convolutions and linear layers, calibrated on images; attention stays in fp32."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scob.inference.onnx.runtime import INPUT

# With Relu and Clip (ReLU6) in this list, a convolution's output is scaled from zero and they themselves disappear.
QUANTISED = ("Conv", "Gemm", "MatMul", "Add", "MaxPool", "Relu", "Clip")


def quantise(plain: Path, small: Path, samples: NDArray[np.uint8]) -> None:
    """Static int8 (QDQ, one scale per weight channel); softmax, layer norms and attention products stay fp32."""
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(samples)

        def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
            pixels = next(self.rest, None)
            return None if pixels is None else {INPUT: np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]}

    prepared = small.with_name(f"{small.name}.prepared")
    try:
        with quiet():
            proto = onnx.load(str(plain))
            linear_as_convolution(proto)
            onnx.save(proto, str(prepared))
            quant_pre_process(str(prepared), str(prepared), skip_symbolic_shape=True)
            graph = onnx.load(str(prepared)).graph
            quantize_static(
                str(prepared), str(small), Samples(), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, op_types_to_quantize=list(QUANTISED),
                calibrate_method=CalibrationMethod.MinMax, nodes_to_exclude=kept_in_fp32(graph),
                # Seven bits for weights: a CPU without VNNI adds pairs of products in 16 bits, which would overflow.
                reduce_range=True, extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
            )  # fmt: skip
    finally:
        prepared.unlink(missing_ok=True)


def linear_as_convolution(model: Any) -> None:
    """Rewrite the linear layers of the transformers, x (B, N, K) @ W (K, M) + b, as 1 x 1 convolutions over N cells.

    The products are the same, but onnxruntime's 8-bit convolution works in blocks and adds the bias as it goes, while
    its matrix product first writes all sums in 32 bits: a fifth faster. A Relu after the layer moves inside, to share
    the scale. A layer that reads a transposed feature map is left alone: it would be transposed once more.
    """
    from onnx import numpy_helper, shape_inference
    from onnx.helper import make_node

    graph = model.graph
    fixed = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    known = shape_inference.infer_shapes(model).graph.value_info
    rank = {value.name: len(value.type.tensor_type.shape.dim) for value in known}
    maker = {output: node.op_type for node in graph.node for output in node.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    results = {output.name for output in graph.output}

    def only_reader(name: str, kind: str) -> list[Any]:
        nodes = readers.get(name, [])
        return nodes if len(nodes) == 1 and nodes[0].op_type == kind and name not in results else []

    nothing = np.empty(0)
    nodes: list[Any] = []
    merged: set[str] = set()  # nodes, by their output
    for node in graph.node:
        if node.output[0] in merged:
            continue
        weight = fixed.get(node.input[1], nothing) if node.op_type == "MatMul" else nothing
        linear = weight.ndim == 2 and rank.get(node.output[0]) == 3
        adds = only_reader(node.output[0], "Add") if linear else []
        biases = [n for add in adds for n in add.input if n in fixed and fixed[n].shape == weight.shape[1:]]
        if not biases or maker.get(node.input[0]) == "Transpose":
            nodes.append(node)
            continue
        relus = only_reader(adds[0].output[0], "Relu")
        merged |= {end.output[0] for end in adds + relus}
        at = node.output[0]
        kernel = np.ascontiguousarray(weight.T)[:, :, None, None]
        graph.initializer.append(numpy_helper.from_array(kernel, f"{at}/kernel"))
        graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), f"{at}/axis"))
        steps = [
            ("Unsqueeze", [node.input[0], f"{at}/axis"], f"{at}/cells", {}),
            ("Transpose", [f"{at}/cells"], f"{at}/channels", {"perm": [0, 3, 1, 2]}),
            ("Conv", [f"{at}/channels", f"{at}/kernel", biases[0]], f"{at}/conv", {}),
            *(("Relu", [f"{at}/conv"], f"{at}/relu", {}) for _ in relus),
            ("Transpose", [f"{at}/relu" if relus else f"{at}/conv"], f"{at}/back", {"perm": [0, 2, 3, 1]}),
            ("Squeeze", [f"{at}/back", f"{at}/axis"], (relus or adds)[0].output[0], {}),
        ]
        nodes += [make_node(kind, read, [output], f"{at}/{kind}/{output}", **how) for kind, read, output, how in steps]
    used = {name for node in nodes for name in node.input}
    weights = [initializer for initializer in graph.initializer if initializer.name in used]
    for field, content in ((graph.node, nodes), (graph.initializer, weights)):
        del field[:]
        field.extend(content)


def kept_in_fp32(graph: Any) -> list[str]:
    """Nodes that stay in fp32: all products of two activations (attention), and the classifier, which is small."""
    fixed = {initializer.name for initializer in graph.initializer}
    products = [n.name for n in graph.node if n.op_type in ("MatMul", "Add") and not any(i in fixed for i in n.input)]
    convolved = {o for n in graph.node if n.op_type in ("Conv", "Relu", "Clip") for o in n.output}
    # The residual additions of the backbone join two convolutions, or one and another such sum, and gain from int8.
    residual = set()
    for n in graph.node:
        if n.op_type == "Add" and all(i in convolved for i in n.input):
            residual.add(n.name)
            convolved |= set(n.output)
    return [name for name in products if name not in residual] + last_matrices(graph)


def last_matrices(graph: Any) -> list[str]:
    """The classifier, or two: that of the head and the linear part.

    The last matrices of the SMTs may read one vector per image, too, but they are large.
    """
    ends = {output.name for output in graph.output}
    found = []
    for n in reversed(graph.node):
        if ends & set(n.output):
            if n.op_type == "Gemm":
                found.append(n.name)
            elif len(n.input) == 1 or n.op_type in ("Add", "Sub", "Mul"):  # a sigmoid, say, or the sum of two logits
                ends |= set(n.input)
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporters: their messages are for their developers."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
