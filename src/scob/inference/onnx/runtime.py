"""Predicting with an exported model. Does not import torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scob.errors import UserError, first_line
from scob.installation import install_line

FORMAT = "scob-onnx-1"
INPUT, OUTPUT = "pixels", "scores"


class OnnxModel:
    """A file of `scob export`: squash-resized RGB pixels in, probabilities out; normalisation is inside the graph."""

    def __init__(self, path: Path, threads: int = 0, device: str = "auto") -> None:
        """`threads` 0 lets onnxruntime decide."""
        try:
            import onnxruntime
        except ImportError as error:  # perhaps because there is no memory for it
            raise UserError(f"an .onnx model needs onnxruntime: {install_line('predict')}") from error
        if not path.is_file():
            raise UserError(f"there is no model at {path}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # what goes wrong is raised as well
        if device not in ("auto", "cpu") and device.partition(":")[0] != "cuda":
            raise UserError(f"an ONNX model does not run on {device!r}: use auto, cpu or cuda")
        wanted = ["CPUExecutionProvider"]
        if device.startswith("cuda") or device == "auto":
            offered = onnxruntime.get_available_providers()
            if "CUDAExecutionProvider" in offered:
                wanted.insert(0, "CUDAExecutionProvider")
            elif device != "auto":
                raise UserError("this onnxruntime has no CUDA: use --device cpu, or install onnxruntime-gpu")
        try:
            # On a CPU the fused residual norm is three times slower than a separate addition and norm.
            off = ["SkipLayerNormFusion"] if wanted == ["CPUExecutionProvider"] else None
            self.session = onnxruntime.InferenceSession(
                str(path), options, providers=wanted, disabled_optimizers=off,
                enable_fallback=int(wanted != ["CPUExecutionProvider"]),  # it prints four lines before it tries again
            )  # fmt: skip
            stored = self.session.get_modelmeta().custom_metadata_map
        except Exception as error:  # onnxruntime has many exceptions for damaged files
            raise UserError(f"{path} is damaged or is not an ONNX model: {first_line(error)}") from error
        self.classes, self.thresholds, self.preprocessing = read_metadata(stored, path)
        self.size = int(self.preprocessing["size"])

    def scores(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, S, S, 3) uint8 -> probabilities (B, L)."""
        planes = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        try:
            probabilities: NDArray[np.float32] = self.session.run([OUTPUT], {INPUT: planes})[0]
        except Exception as error:  # onnxruntime's own; they are not RuntimeErrors
            raise UserError(f"onnxruntime cannot compute this model's scores: {first_line(error)}") from error
        return probabilities


def read_metadata(stored: Mapping[str, str], path: Path) -> tuple[tuple[str, ...], NDArray[np.float32], dict[str, Any]]:
    """Classes, thresholds (L,) and preprocessing from the metadata of an exported file, checked."""
    if stored.get("format") != FORMAT:
        raise UserError(f"{path} is not from this version's `scob export` (expected {FORMAT}): export it again")
    try:
        classes = tuple(str(name) for name in json.loads(stored["classes"]))
        with np.errstate(over="ignore"):
            thresholds: NDArray[np.float32] = np.array(json.loads(stored["thresholds"]), np.float32)
        preprocessing: dict[str, Any] = json.loads(stored["preprocessing"])
        if thresholds.shape != (len(classes),) or not classes:
            raise ValueError("classes and thresholds do not fit together")
        if not np.isfinite(thresholds).all():
            raise ValueError("a threshold is not a finite number")
        if not 16 <= int(preprocessing["size"]) <= 4096:
            raise ValueError(f"the input size is {preprocessing['size']} pixels")
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path}: its metadata is damaged ({error}): export it again") from error
    return classes, thresholds, preprocessing
