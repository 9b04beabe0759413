"""Every target of the fuzzers, and what they start from."""

from collections.abc import Callable

from fuzz.answer_seeds import answer_seeds
from fuzz.answer_targets import ANSWER_TARGETS
from fuzz.folder_seeds import folder_seeds
from fuzz.folder_targets import FOLDER_TARGETS
from fuzz.reader_seeds import reader_seeds
from fuzz.reader_targets import READER_TARGETS
from fuzz.seeds import seeds
from fuzz.targets import TARGETS, Target

KINDS: list[tuple[dict[str, Target], Callable[[str], list[bytes]]]] = [
    (TARGETS, seeds),
    (FOLDER_TARGETS, folder_seeds),
    (READER_TARGETS, reader_seeds),
    (ANSWER_TARGETS, answer_seeds),
]
PARSERS: dict[str, Target] = {name: target for targets, _ in KINDS for name, target in targets.items()}


def seeds_of(name: str) -> list[bytes]:
    """Inputs that are valid, or nearly so, for a fuzzer to start from."""
    return next(valid(name) for targets, valid in KINDS if name in targets)
