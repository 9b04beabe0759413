"""Every parser of outside input, on spoilt inputs: each is accepted, or refused with a sentence.

`SCOB_FUZZ_EXAMPLES=100000 pytest tests/fuzz` searches longer, and differently each time; `run_atheris.py` is guided by
coverage.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.seeds import seeds
from fuzz.targets import TARGETS, survives

EXAMPLES = int(os.environ.get("SCOB_FUZZ_EXAMPLES", "60"))
SLOW = {"model_load": 0.2, "onnx_file": 0.3}
SPICE = [
    b"", b"\0", b'"', b"{", b"[", b"]]", b"}", b"<", b"&", b"*a", b"&a", b"null", b"NaN", b"1e400", b"-1", b"0",
    b"true", b"99999999999999999999", b"\xff\xfe", b"\xef\xbb\xbf", b'"\\ud800"', b"../", b"\n\n", b"\r", b",,", b";",
    b"!!", b"[" * 2000, b"9" * 5000, b"\xed\xa0\x80", b"]]>", b"<!DOCTYPE a [", b"{}", b"[]", b'""',
]  # fmt: skip


@st.composite
def spoilt(draw: Any, name: str) -> bytes:
    """A valid input with a few slices replaced, or random bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(seeds(name)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 1, 1, 2, 4, 16, 64]))
        put = draw(st.one_of(st.sampled_from(SPICE), st.binary(max_size=4), st.just(data[start : start + length] * 2)))
        data = data[:start] + put + data[start + length :]
    return data


@pytest.mark.parametrize("name", list(TARGETS))
def test_a_spoilt_file_is_taken_or_refused(name: str) -> None:
    target = TARGETS[name]
    for seed in seeds(name):
        survives(target, seed)

    @settings(
        max_examples=max(10, int(EXAMPLES * SLOW.get(name, 1))), deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(spoilt(name))
    def check(data: bytes) -> None:
        survives(target, data)

    check()


# What fuzzing and reading found, so that it stays found.
FOUND = [
    ("cub_lists", b"9" * 5000 + b" a.jpg\n\x001 1\n\x001 has_bill::dagger\n\x001 1 1 3 2.5\n"),
    ("cub_lists", "² a.jpg\n\x001 1\n\x001 has_bill::dagger\n\x001 1 1 3 2.5\n".encode()),
    ("voc_annotation", b"\x02<?xml version='1.0' encoding='tf-16'?><annotation/>"),
    ("settings", b"a: &a [1]\nb: *a\n"),
    ("settings", b"train: {seed: 1}\n\0train.seed=2000-99-99"),
    ("settings", b"\0data.source=" + b"[" * 3000),
    ("settings", b"\0train.seed=" + b"1" * 5000),
    ("model_card", b'{"format": "scob-model-1", "size": 1e400}'),
    ("model_card", b"[" * 50_000),
    ("model_load", b"\0408"),
    ("model_load", b"\x2cnull"),
    ("model_load", b'\x34"x"'),
    ("model_load", b"\x041e400"),
    ("onnx_metadata", b'["a"]\0[1]\0{"size": 1e400}'),
    ("onnx_metadata", b'["a"]\0[1]\0{"size": 1000000000}'),
    ("onnx_metadata", b"[" * 50_000 + b"\0[1]\0{}"),
    ("coco_instances", b'\0{"images": [{"id": 1e400, "file_name": "a.jpg"}], "categories": [{"id": 1, "name": "c"}]}'),
    (
        "coco_instances",
        b'\4{"images": [{"id": 1, "file_name": "\\ud800.jpg"}], "categories": [{"id": 1, "name": "c"}]}',
    ),
    ("coco_instances", b'\0{"images": [], "categories": [{"id": 1, "name": "\\ud800"}]}'),
    (
        "coco_instances",
        b'\0{"images": [{"id": 1, "file_name": "a.jpg", "height": 4, "width": 4}], "categories": '
        b'[{"id": 1, "name": "c"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": "x"}]}',
    ),
    (
        "coco_instances",
        b'\0{"images": [{"id": 1, "file_name": "a.jpg", "height": 1000000, "width": 1000000}], "categories": '
        b'[{"id": 1, "name": "c"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": '
        b"[[0, 0, 1, 1, 1, 0]]}]}",
    ),
    (
        "coco_instances",
        b'\0{"images": [{"id": 1, "file_name": "a.jpg", "height": 4, "width": 4}], "categories": '
        b'[{"id": 1, "name": "c"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": '
        b"[[0, 0, 100000000, 1, 1, 0]]}]}",
    ),
    ("label_table", b'\1{"image": "\\ud800.jpg", "labels": ["cat"]}'),
    ("label_table", b'\1{"image": "a.jpg", "labels": ["\\ud800"]}'),
]


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_stays_found(name: str, data: bytes) -> None:
    survives(TARGETS[name], data)
