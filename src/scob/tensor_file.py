"""safetensors files in pieces, straight from the tensors' memory.

The library's own `save` copies everything twice first, and where there is no memory for that it aborts the process.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
ALIGNMENT = 8


@dataclass(frozen=True)
class RawTensor:
    """A tensor as a file stores it: the name of its type (as NumPy and torch have it), its shape, its bytes."""

    type: str
    shape: tuple[int, ...]
    content: memoryview

    @staticmethod
    def of(values: NDArray[Any]) -> "RawTensor":
        """A NumPy array."""
        packed = np.ascontiguousarray(values)
        return RawTensor(str(packed.dtype), values.shape, packed.reshape(-1).view(np.uint8).data)

    @staticmethod
    def of_torch(tensor: "Tensor") -> "RawTensor":
        """A tensor of torch, on any device."""
        import torch

        host = tensor.detach().cpu().contiguous()
        content = host.flatten().view(torch.uint8).numpy().data
        return RawTensor(str(host.dtype).removeprefix("torch."), tuple(host.shape), content)


def file_pieces(tensors: Mapping[str, RawTensor], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """The content of a safetensors file: its header, then each tensor's bytes, those with the widest type first."""
    ordered = sorted(tensors.items(), key=lambda item: (-np.dtype(_width(item[1].type)).itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, tensor in ordered:
        end = start + tensor.content.nbytes
        header[name] = {"dtype": TYPES[tensor.type], "shape": tensor.shape, "data_offsets": [start, end]}
        start = end
    written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    written += b" " * (-len(written) % ALIGNMENT)
    return [len(written).to_bytes(8, "little"), written, *(tensor.content for _, tensor in ordered)]


def _width(type: str) -> str:
    return "float16" if type == "bfloat16" else type  # NumPy does not have it
