"""Every parser of outside input, on spoilt inputs: each is accepted, or refused with a sentence.

`SCOB_FUZZ_EXAMPLES=100000 pytest tests/fuzz` searches longer, and differently each time; `run_atheris.py` is guided by
coverage.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.answer_targets import ANSWER_TARGETS
from fuzz.found import FOUND
from fuzz.mutations import SPICE
from fuzz.parsers import PARSERS, seeds_of
from fuzz.reader_targets import READER_TARGETS
from fuzz.targets import survives

EXAMPLES = int(os.environ.get("SCOB_FUZZ_EXAMPLES", "60"))
SLOW = {"model_load": 0.2, "onnx_file": 0.3}


@st.composite
def spoilt(draw: Any, name: str) -> bytes:
    """A valid input with a few slices replaced, or random bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(seeds_of(name)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 1, 1, 2, 4, 16, 64]))
        put = draw(st.one_of(st.sampled_from(SPICE), st.binary(max_size=4), st.just(data[start : start + length] * 2)))
        data = data[:start] + put + data[start + length :]
    return data


@pytest.mark.parametrize("name", list(PARSERS))
def test_a_spoilt_file_is_taken_or_refused(name: str) -> None:
    target = PARSERS[name]
    accepted = [survives(target, seed) for seed in seeds_of(name)]
    assert any(accepted), "no input to start from is valid: mutations of them do not get far"

    @settings(
        max_examples=max(10, int(EXAMPLES * SLOW.get(name, 1))), deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(spoilt(name))
    def check(data: bytes) -> None:
        survives(target, data)

    check()


@pytest.mark.parametrize("name", [*READER_TARGETS, *ANSWER_TARGETS])
def test_what_mutations_start_from_is_valid(name: str) -> None:
    refusals: list[str] = []
    for seed in seeds_of(name):
        survives(PARSERS[name], seed, refusals.append)
    assert not refusals


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_stays_found(name: str, data: bytes) -> None:
    survives(PARSERS[name], data)
