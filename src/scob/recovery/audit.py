"""How many suggestions are right: precision with an interval, overall and per class, from a random sample of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scob.files import csv_text
from scob.recovery.decisions import ACCEPT, REJECT
from scob.recovery.suggestion import Pair, Suggestion

Z = 1.959964  # 95%
ALL = ""  # the name of the row about all classes
AUDIT = "audit.csv"
HEADER = ("class", "suggested", "reviewed", "right", "precision", "low", "high")


@dataclass(frozen=True)
class Precision:
    """Of `suggested` suggestions, so many were reviewed and right; the true share is in [low, high] 19 times of 20."""

    label: str
    suggested: int
    reviewed: int
    right: int

    @property
    def value(self) -> float | None:
        return self.right / self.reviewed if self.reviewed else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.reviewed)


def wilson(right: int, reviewed: int, z: float = Z) -> tuple[float, float]:
    """Wilson's score interval of a share: honest for small samples, and for shares near 0 and 1."""
    if not reviewed:
        return 0.0, 1.0
    share, square = right / reviewed, z * z
    centre = (share + square / (2 * reviewed)) / (1 + square / reviewed)
    half = z / (1 + square / reviewed) * math.sqrt(share * (1 - share) / reviewed + square / (4 * reviewed**2))
    return 0.0 if not right else centre - half, 1.0 if right == reviewed else centre + half


def audit(
    suggestions: Sequence[Suggestion], sample: Sequence[Suggestion], decisions: Mapping[Pair, str]
) -> list[Precision]:
    """The precision of all classes together (first, named ''), and of each class with a suggestion in the sample.

    A skipped suggestion counts as if it had not been drawn.
    """
    names = sorted({s.label for s in sample})
    rows = []
    for name in (ALL, *names):
        answers = [decisions.get((s.image, s.label)) for s in sample if name in (ALL, s.label)]
        right, wrong = answers.count(ACCEPT), answers.count(REJECT)
        suggested = sum(name in (ALL, s.label) for s in suggestions)
        rows.append(Precision(name, suggested, right + wrong, right))
    return rows


def as_table(rows: Sequence[Precision]) -> str:
    """The audit as CSV."""
    lines: list[tuple[object, ...]] = []
    for row in rows:
        low, high = row.interval
        value = "" if row.value is None else f"{row.value:.4f}"
        lines.append((row.label or "all", row.suggested, row.reviewed, row.right, value, f"{low:.4f}", f"{high:.4f}"))
    return csv_text([HEADER, *lines])


def as_tree(rows: Sequence[Precision]) -> list[dict[str, object]]:
    """The audit for the page: only what has been reviewed."""
    return [
        {
            "class": row.label or "all classes",
            "reviewed": row.reviewed,
            "right": row.right,
            "low": round(row.interval[0], 4),
            "high": round(row.interval[1], 4),
        }
        for row in rows
        if row.reviewed
    ]
