"""A model as one ONNX file: pixels in, probabilities out; its metadata describes how to use it.

The file is checked against the torch model before it is saved; one that differs is discarded.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scob.data.find_images import find_images
from scob.data.images import decode
from scob.data.progress import Progress, part
from scob.data.readers import open_complete
from scob.data.split import ReadOptions, Split
from scob.errors import UserError, first_line
from scob.files import remove_dead_parts, sync_file, sync_folder
from scob.inference.model import Scob
from scob.inference.onnx.quantise import quantise, quiet
from scob.inference.onnx.runtime import FORMAT, INPUT, OUTPUT, OnnxModel
from scob.inference.scoring import score_together
from scob.installation import install_line
from scob.training.find_model import find_model

OPSET = 17
CALIBRATION_IMAGES = 128


@dataclass(frozen=True)
class ExportCheck:
    """How the file is compared with the torch model.

    `tolerance` is the largest allowed difference in any fp32 probability. With a labelled `source` (and its `split`)
    the mAP of both models is measured.
    """

    tolerance: float = 1e-3
    source: str = ""
    split: str | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Exported:
    """The file and how it compares with torch: the largest difference in a probability and, if measured, both mAPs."""

    path: Path
    bytes: int
    difference: float
    int8: bool = False
    int8_difference: float | None = None
    map_torch: float | None = None
    map_exported: float | None = None


class Deployed(nn.Module):
    """A network with its normalisation before it and a sigmoid after it: uint8 (B, 3, S, S) -> (B, L)."""

    def __init__(self, scob: Scob) -> None:
        super().__init__()
        self.network = scob.network
        self.register_buffer("mean", 255 * torch.tensor(scob.card.mean).view(1, 3, 1, 1))
        self.register_buffer("std", 255 * torch.tensor(scob.card.std).view(1, 3, 1, 1))
        self.mean: Tensor
        self.std: Tensor

    def forward(self, pixels: Tensor) -> Tensor:
        probabilities: Tensor = self.network((pixels.float() - self.mean) / self.std).sigmoid()
        return probabilities


def metadata(scob: Scob, int8: bool) -> dict[str, str]:
    """The metadata of the file: classes, thresholds, how to prepare an image."""
    card = scob.card
    preprocessing = {
        "size": card.size,
        "colour": "RGB, EXIF rotation applied, transparency on white",
        "resize": "bilinear with antialiasing (Pillow's BILINEAR) to size x size, the aspect ratio not kept",
        "input": f"{INPUT}: uint8, batch x 3 x size x size, values 0 to 255; normalisation is inside the graph",
        "output": f"{OUTPUT}: float32, batch x classes, probabilities",
        "mean": card.mean,
        "std": card.std,
    }
    return {
        "format": FORMAT,
        "classes": json.dumps(card.classes),
        "thresholds": json.dumps(card.thresholds),
        "preprocessing": json.dumps(preprocessing),
        "method": card.method,
        "backbone": card.backbone_name,
        "labels": json.dumps(card.labels),
        "precision": "int8" if int8 else "fp32",
    }


def export(
    model: str | Path,
    out: Path | None = None,
    format: str = "onnx",
    int8: bool = False,
    calibration: Sequence[str | Path] = (),
    comparison: ExportCheck = ExportCheck(),
) -> Exported:
    """`scob export`: write one .onnx file and check it against torch; returns the differences.

    int8 is calibrated on `calibration` images, which need no labels; by default on the run's own.
    """
    if format != "onnx":
        raise UserError(f"there is no export format {format!r}: use onnx")
    for needed in ("onnx", "onnxscript", "onnxruntime"):
        if not _importable(needed):
            raise UserError(f"exporting needs {needed}: {install_line('onnx')}")
    trained = find_model(model)
    if trained.is_onnx:
        raise UserError(f"{trained.path} is an ONNX file already; export its model folder")
    if int8 and not calibration and trained.run is None:
        raise UserError(
            "--int8 needs images to calibrate on: --calibration FOLDER (a hundred without labels are enough)"
        )
    scob = Scob.from_pretrained(trained.path, "cpu")
    # Opened before anything is exported: it may be missing, or not fully labelled.
    labelled = None
    if comparison.source:
        labelled = open_complete(comparison.source, comparison.split, ReadOptions(classes=scob.classes))
    target = out or trained.path / ("model-int8.onnx" if int8 else "model.onnx")
    samples = noise(scob.size)
    if calibration:
        samples = calibration_pixels(calibration, scob.size)
    elif int8:
        samples = training_pixels(Path(model), scob.size)
    with partial_file(target) as plain:
        part(comparison.progress, "writing the ONNX file")
        write_onnx(scob, plain)
        part(comparison.progress, "comparing it with PyTorch")
        difference = compare(scob, plain, samples[:4])
        if not difference <= comparison.tolerance:
            raise UserError(
                f"the exported file differs from torch by {difference:.2g} in a probability "
                f"(allowed: {comparison.tolerance:g}); {target} was not written"
            )
        result = Exported(target, plain.stat().st_size, difference)
        if int8:
            with partial_file(target.with_name(f"{target.name}.int8")) as small:
                part(comparison.progress, "quantising to 8 bits")
                quantise(plain, small, samples)
                write_metadata(small, metadata(scob, True))
                os.replace(small, plain)  # noqa: PTH105 (the only file that is left)
            result = Exported(target, plain.stat().st_size, difference, True, compare(scob, plain, samples[:4]))
        if labelled is not None:
            before, after = measure(
                scob, OnnxModel(plain, device="cpu"), labelled, part(comparison.progress, "measuring mAP")
            )
            result = Exported(target, result.bytes, difference, int8, result.int8_difference, before, after)
        sync_file(plain)
        plain.replace(target)
        sync_folder(target.parent)
    return result


def write_onnx(scob: Scob, path: Path) -> None:
    """Trace the network for any batch size and write it with its metadata."""
    deployed = Deployed(scob).eval()
    # The tracer turns NCHW code into NCHW operators; weights in channels-last order confuse it.
    deployed = deployed.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    example = torch.zeros((2, 3, scob.size, scob.size), dtype=torch.uint8)
    names: dict[str, Any] = {"input_names": [INPUT], "output_names": [OUTPUT], "opset_version": OPSET}
    try:
        with quiet(), torch.no_grad():
            try:
                # The older exporter takes half a second, the newer one ten; the result is compared with torch anyway.
                axes = {INPUT: {0: "batch"}, OUTPUT: {0: "batch"}}
                torch.onnx.export(deployed, (example,), str(path), dynamo=False, dynamic_axes=axes, **names)
            except Exception:  # it supports fewer operators, and will be removed one day
                shapes = {"pixels": {0: torch.export.Dim("batch", min=1, max=65536)}}
                torch.onnx.export(
                    deployed, (example,), str(path), dynamo=True, dynamic_shapes=shapes, external_data=False, **names
                )
    except Exception as error:  # the exporter has an exception class for each stage
        raise UserError(f"this model cannot be exported to ONNX: {first_line(error)}") from error
    write_metadata(path, metadata(scob, False))
    scob.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def write_metadata(path: Path, properties: dict[str, str]) -> None:
    """Write metadata into an ONNX file."""
    import onnx

    proto = onnx.load(str(path))
    onnx.helper.set_model_props(proto, properties)
    onnx.save(proto, str(path))


def compare(scob: Scob, path: Path, samples: NDArray[np.uint8]) -> float:
    """The largest difference between a probability of the file and of torch, for one sample and for all at once."""
    exported = OnnxModel(path, device="cpu")
    largest = 0.0
    for pixels in (samples[:1], samples):
        difference = np.abs(exported.scores(pixels) - scob.scores(pixels)).max()
        largest = max(largest, float(difference) if np.isfinite(difference) else np.inf)
    return largest


def measure(scob: Scob, exported: OnnxModel, labelled: Split, progress: Progress | None = None) -> tuple[float, float]:
    """mAP of both models on a labelled split."""
    from scob.training.metrics import mean_average_precision

    scores = score_together([scob, exported], labelled, progress=progress)
    torch_map, onnx_map = (mean_average_precision(one, labelled.labels.values) for one in scores)
    return torch_map, onnx_map


def calibration_pixels(images: Sequence[str | Path], size: int) -> NDArray[np.uint8]:
    """At most `CALIBRATION_IMAGES` of the given images, evenly spaced: (N, S, S, 3)."""
    paths = find_images(images).paths
    return some_pixels(len(paths), lambda row: decode(paths[row], size))


def training_pixels(run: Path, size: int) -> NDArray[np.uint8]:
    """At most `CALIBRATION_IMAGES` of a run's own images, evenly spaced: (N, S, S, 3)."""
    from scob.training.run_data import listed_images
    from scob.training.run_folder import RunFolder

    try:
        images = listed_images(RunFolder(run).read_config()).images
    except UserError as error:
        raise UserError(f"{error} (to calibrate on other images: --calibration FOLDER)") from error
    return some_pixels(len(images), lambda row: images.load(row, size))


def some_pixels(count: int, load: Callable[[int], NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """At most `CALIBRATION_IMAGES` of `count` images, evenly spaced; broken ones are left out."""
    pixels = []
    for row in np.linspace(0, count - 1, min(count, CALIBRATION_IMAGES)).astype(int):
        with contextlib.suppress(UserError):
            pixels.append(load(int(row)))
    if not pixels:
        raise UserError(f"none of the {count} calibration images can be read")
    return np.stack(pixels)


def noise(size: int) -> NDArray[np.uint8]:
    """Pictures for the comparison if none are given: a ramp, and noise."""
    ramp = np.broadcast_to(np.linspace(0, 255, size).astype(np.uint8)[None, :, None], (size, size, 3))
    random = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    return np.concatenate((ramp[None], random))


@contextlib.contextmanager
def partial_file(target: Path) -> Iterator[Path]:
    """A temporary file beside `target` to write to; removed afterwards."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_dead_parts(target.parent)
        beside.touch()
        yield beside
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def _importable(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None
