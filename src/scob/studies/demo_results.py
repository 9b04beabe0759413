"""What the demo measures: numbers for each method, curves, and pictures of recovered labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scob.config import Config

METHODS = {
    "an": "Assume negative",
    "role": "ROLE",
    "role-smt": "ROLE + SMT",
    "scob": "Scob",
    "full": "Full labels",
}
COLUMNS = ("mAP", "OF1", "CF1", "recovered AP", "recovered precision", "recovered recall")


@dataclass
class Picture:
    """A training scene for the gallery: what was observed, what Scob recovered, and where it saw it."""

    pixels: NDArray[np.uint8]
    observed: list[str]
    recovered: list[tuple[str, float, bool, NDArray[np.bool_]]]  # class, score, whether it is true, mask
    missed: list[str]


@dataclass
class Demo:
    """What the demo measured: a value for each method, column and seed; curves; pictures."""

    config: Config
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    curves: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    per_class: dict[str, dict[str, float | None]] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)
    pointing: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": self.config.model_dump(mode="json"),
            "results": self.values,
            "curves": self.curves,
            "per_class": self.per_class,
            "pointing": self.pointing,
        }
