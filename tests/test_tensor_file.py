"""safetensors files written piece by piece: the library reads what was meant, and no copy is made."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load, load_file

from scob.files import write_atomically
from scob.tensor_file import TYPES, RawTensor, file_pieces

SHAPES = st.lists(st.integers(0, 3), max_size=3)


@given(st.dictionaries(st.text(min_size=1), st.tuples(st.sampled_from(sorted(TYPES)), SHAPES), max_size=6), st.text())
def test_the_library_reads_every_type_shape_and_name(described: dict[str, tuple[str, list[int]]], remark: str) -> None:
    described.pop("__metadata__", None)
    chance = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randint(0, 2, shape, generator=chance).to(getattr(torch, type))
        for name, (type, shape) in described.items()
    }
    stored = b"".join(file_pieces({name: RawTensor.of_torch(t) for name, t in tensors.items()}, {"remark": remark}))
    read = load(stored)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


def test_metadata_and_arrays_come_back(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.int8).reshape(2, 3).T  # not contiguous
    write_atomically(tmp_path / "file", file_pieces({"values": RawTensor.of(values)}, {"origin": "a 'käfer'\n"}))
    with safe_open(tmp_path / "file", framework="numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("values"), values)
        assert file.metadata() == {"origin": "a 'käfer'\n"}


def test_the_bytes_are_the_tensors_own() -> None:
    tensor = torch.zeros(8)
    header, content = b"".join(file_pieces({}, {})), RawTensor.of_torch(tensor)
    assert len(header) % 8 == 0
    tensor[0] = 1
    assert bytes(content.content[:4]) == np.float32(1).tobytes()


def test_a_view_is_stored_as_what_it_shows(tmp_path: Path) -> None:
    tensor = torch.arange(12.0).reshape(3, 4).t()[1:]
    write_atomically(tmp_path / "file", file_pieces({"x": RawTensor.of_torch(tensor)}, {}))
    torch.testing.assert_close(load_file(tmp_path / "file")["x"], tensor)


def test_an_unknown_type_is_not_written() -> None:
    with pytest.raises(KeyError):
        file_pieces({"x": RawTensor.of_torch(torch.zeros(2, dtype=torch.complex64))}, {})
