"""The label estimator's final estimates for every training image: one small file in the run folder."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scob.errors import UserError
from scob.files import write_atomically

FILE = "estimates.safetensors"


def save_estimates(folder: Path, images: Sequence[str], classes: Sequence[str], values: NDArray[np.float32]) -> None:
    """Write estimates (N, L) in [0, 1] to a run folder."""
    names = np.frombuffer(json.dumps(list(images)).encode(), dtype=np.uint8)
    metadata = {"format": "scob-estimates-1", "classes": json.dumps(list(classes))}
    tensors = {"estimates": np.ascontiguousarray(values, dtype=np.float16), "images": names}
    write_atomically(folder / FILE, save(tensors, metadata=metadata))


def load_estimates(folder: Path, images: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32] | None:
    """Estimates (N, L) for `images`, NaN for those the estimator never saw; None if the method has no estimator."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            stored: list[str] = json.loads(file.get_tensor("images").tobytes())
            values: NDArray[np.float16] = file.get_tensor("estimates")
            known = json.loads((file.metadata() or {})["classes"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise UserError(f"{path} is damaged: {error}; remove it to rank suggestions by the scores alone") from error
    if list(known) != list(classes) or values.shape != (len(stored), len(known)):
        raise UserError(f"{path} has different classes from the run: remove it to rank suggestions by the scores alone")
    row_of = {name: row for row, name in enumerate(stored)}
    rows = np.array([row_of.get(name, -1) for name in images], dtype=np.int64)
    estimates = np.full((len(rows), len(known)), np.nan, dtype=np.float32)
    estimates[rows >= 0] = values[rows[rows >= 0]]
    return estimates
