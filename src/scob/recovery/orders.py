"""In which order suggestions are reviewed: the most confident first, the most informative first, or at random."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scob.draws import mix, seed_key, text_keys
from scob.errors import UserError
from scob.recovery.suggestion import Suggestion

ORDERS = ("confident", "informative", "audit")


@dataclass(frozen=True)
class ReviewMode:
    """How suggestions are shown. `size` limits an audit; `blind` hides what the model thinks until the answer."""

    order: str = "confident"
    size: int | None = None
    blind: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise UserError(f"there is no order {self.order!r}; the orders are {', '.join(ORDERS)}")
        if self.size is not None and self.size < 1:
            raise UserError(f"an audit needs at least one suggestion, not {self.size}")


def in_order(suggestions: Sequence[Suggestion], mode: ReviewMode) -> list[Suggestion]:
    """The suggestions to review, in their order."""
    if mode.order == "informative":
        return by_doubt(suggestions)
    if mode.order == "audit":
        return at_random(suggestions, mode.seed)[: mode.size]
    return list(suggestions)


def by_doubt(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """The least sure first, in turns of the classes: an answer about a class that was just asked about says less."""
    classes: dict[str, list[Suggestion]] = {}
    for suggestion in sorted(suggestions, key=lambda s: abs(s.confidence - 0.5)):
        classes.setdefault(suggestion.label, []).append(suggestion)
    turns = sorted(
        (turn, abs(s.confidence - 0.5), s.label, s.image, s)
        for of_class in classes.values()
        for turn, s in enumerate(of_class)
    )
    return [s for *_, s in turns]


def at_random(suggestions: Sequence[Suggestion], seed: int = 0) -> list[Suggestion]:
    """A random order that depends on the seed and on what is suggested alone: whoever stops early has a fair sample."""
    if not suggestions:
        return []
    keys = text_keys(f"{s.image}\x1f{s.label}" for s in suggestions)
    order = np.argsort(mix(keys, seed_key(seed, "audit")), kind="stable")
    return [suggestions[int(row)] for row in order]
