"""A run's final estimates of the labels of every training image: one small file in the run folder.

They are those of the label estimator, or, if the network has a linear part, those of `fit_linear` and `Method.ranking`.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from scob.errors import UserError
from scob.files import write_atomically
from scob.labels import UNKNOWN
from scob.model.network import Network
from scob.tensor_file import RawTensor, file_pieces

FILE = "estimates.safetensors"
FORMAT = "scob-estimates-2"
UNSEALED = "scob-estimates-1"  # an earlier version, without a digest


def save_estimates(folder: Path, images: Sequence[str], classes: Sequence[str], values: NDArray[np.float32]) -> None:
    """Write estimates (N, L) in [0, 1] to a run folder."""
    names = np.frombuffer(json.dumps(list(images)).encode(), dtype=np.uint8)
    small = np.ascontiguousarray(values, dtype=np.float16)
    metadata = {"format": FORMAT, "classes": json.dumps(list(classes))}
    metadata["digest"] = _digest(small, names, metadata["classes"])
    tensors = {"estimates": RawTensor.of(small), "images": RawTensor.of(names)}
    write_atomically(folder / FILE, file_pieces(tensors, metadata))


def load_estimates(folder: Path, images: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32] | None:
    """Estimates (N, L) for `images`, NaN for those the estimator never saw; None if the method has no estimator."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            names, values = file.get_tensor("images"), file.get_tensor("estimates")
            metadata = file.metadata() or {}
        if metadata["format"] not in (FORMAT, UNSEALED):
            raise ValueError(f"its format is {metadata['format']!r}")
        if metadata["format"] == FORMAT and metadata["digest"] != _digest(values, names, metadata["classes"]):
            raise ValueError("its contents do not match its digest")
        stored, known = _names(names.tobytes()), _names(metadata["classes"])
    except (SafetensorError, KeyError, ValueError, TypeError, OSError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}; remove it to rank suggestions by the scores alone") from error
    if known != list(classes) or values.shape != (len(stored), len(known)):
        raise UserError(f"{path} has different classes from the run: remove it to rank suggestions by the scores alone")
    row_of = {name: row for row, name in enumerate(stored)}
    rows = np.array([row_of.get(name, -1) for name in images], dtype=np.int64)
    estimates = np.full((len(rows), len(known)), np.nan, dtype=np.float32)
    estimates[rows >= 0] = values[rows[rows >= 0]]
    return estimates


def ranked_by(
    network: Network, scores: NDArray[np.float32], estimates: NDArray[np.float32] | None, observed: NDArray[np.int8]
) -> NDArray[np.float32]:
    """What the unknown labels of a run's own images are ranked by, all (N, L): the scores of its network.

    A linear part has seen which labels of these images were not observed. So the estimates take the place of its
    scores: in them, the linear part's predictions are leave-one-out ones (`fit_linear`).
    """
    if estimates is None or network.linear is None:
        return scores
    return np.where((observed == UNKNOWN) & ~np.isnan(estimates), estimates, scores).astype(np.float32)


def _names(text: bytes | str) -> list[str]:
    """A list of names from JSON."""
    names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("images or classes are not a list of names")
    return names


def _digest(values: NDArray[np.float16], names: NDArray[np.uint8], classes: str) -> str:
    """SHA-256 over estimates, images and classes."""
    total = hashlib.sha256(f"{values.dtype}|{values.shape}|{classes}|".encode())
    total.update(np.ascontiguousarray(values).tobytes())
    total.update(names.tobytes())
    return total.hexdigest()
