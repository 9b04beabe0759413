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
    "pairs": "Pairs",
    "full": "Full labels",
}
OURS = ("scob", "pairs")
LONGEST_FIRST = ("pairs", "scob", "full", "role-smt", "role", "an")
COLUMNS = ("mAP", "OF1", "CF1", "recovered AP", "recovered precision", "recovered recall")


@dataclass
class Picture:
    """A training scene for the gallery: what was observed, what Scob recovered, and where it saw it."""

    pixels: NDArray[np.uint8]
    observed: list[str]
    recovered: list[tuple[str, float, bool, NDArray[np.bool_]]]  # class, score, whether it is true, mask
    missed: list[str]


@dataclass
class Row:
    """What was measured on one method with one seed: a value for each column, and what the page shows of it."""

    values: dict[str, float]
    curve: list[dict[str, Any]]
    per_class: dict[str, float | None]
    pictures: list[Picture] = field(default_factory=list)
    pointing: dict[str, float] = field(default_factory=dict)


@dataclass
class Demo:
    """What the demo measured: a value for each method, column and seed; curves; pictures."""

    config: Config
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    curves: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    per_class: dict[str, dict[str, float | None]] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)
    pointing: dict[str, float] = field(default_factory=dict)

    def add(self, method: str, row: Row) -> None:
        """Add the row of a method's next seed; all but the values are those of its first."""
        for column, value in row.values.items():
            self.values.setdefault(method, {}).setdefault(column, []).append(value)
        self.curves.setdefault(method, row.curve)
        self.per_class.setdefault(method, row.per_class)
        self.pictures = self.pictures or row.pictures
        self.pointing = self.pointing or row.pointing

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": self.config.model_dump(mode="json"),
            "results": self.values,
            "curves": self.curves,
            "per_class": self.per_class,
            "pointing": self.pointing,
        }
