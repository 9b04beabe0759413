"""Every target of the fuzzers, and what they start from."""

from fuzz.folder_seeds import folder_seeds
from fuzz.folder_targets import FOLDER_TARGETS
from fuzz.seeds import seeds
from fuzz.targets import TARGETS, Target

PARSERS: dict[str, Target] = {**TARGETS, **FOLDER_TARGETS}


def seeds_of(name: str) -> list[bytes]:
    """Inputs that are valid, or nearly so, for a fuzzer to start from."""
    return seeds(name) if name in TARGETS else folder_seeds(name)
