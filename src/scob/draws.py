"""Random numbers that depend only on what they are for.

Every random choice in Scob (which label is kept, which view is flipped, which image is the positive) is keyed by a
seed, a purpose and an image, never by the order of calls. A run therefore makes the same choices on another machine,
with another number of processes, or when it is resumed in the middle of an epoch.

The mixer is SplitMix64 (Steele, Lea and Flood 2014), in NumPy on the host and in torch for batches on a device.
torch is imported when it is used: reading labels, and predicting with ONNX, do without.
"""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def text_key(text: str) -> int:
    """A signed 64-bit key of a text, the same on every machine."""
    raw = text.encode(errors="surrogateescape")  # file names need not be UTF-8
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big", signed=True)


def text_keys(texts: Iterable[str]) -> NDArray[np.int64]:
    """`text_key` of each text."""
    return np.array([text_key(t) for t in texts], dtype=np.int64)


def seed_key(*parts: int | str) -> int:
    """One 63-bit key for a seed, an epoch, a purpose and so on: `seed_key(seed, epoch, "flip")`."""
    return text_key("\x1f".join(str(p) for p in parts)) & 0x7FFFFFFFFFFFFFFF


def mix(keys: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """SplitMix64 of each key with a salt."""
    with np.errstate(over="ignore"):
        x = keys.astype(np.uint64) ^ np.uint64(salt & 0xFFFFFFFFFFFFFFFF)
        x = x + np.uint64(_GOLDEN)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX1)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX2)
        return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _shift(x: "Tensor", bits: int) -> "Tensor":
    """Logical right shift of an int64 tensor."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix_tensor(keys: "Tensor", salt: int) -> "Tensor":
    """`mix` on the device: the same 64 bits, as int64."""
    x = keys ^ _signed(salt & 0xFFFFFFFFFFFFFFFF)
    x = x + _signed(_GOLDEN)
    x = (x ^ _shift(x, 30)) * _signed(_MIX1)
    x = (x ^ _shift(x, 27)) * _signed(_MIX2)
    return x ^ _shift(x, 31)


def uniform(keys: "Tensor", salt: int, count: int = 1) -> "Tensor":
    """`count` numbers in [0, 1) for each key: (B,) int64 -> (B, count) float32."""
    import torch

    lanes = torch.arange(1, count + 1, device=keys.device, dtype=torch.int64) * _signed(_GOLDEN)
    bits = _shift(mix_tensor(mix_tensor(keys, salt)[:, None] + lanes, salt), 40)
    return bits.to(torch.float32) * 2.0**-24


def permutation(count: int, *parts: int | str) -> NDArray[np.int64]:
    """A permutation of 0..count-1 that depends on `count` and `parts` alone."""
    return np.argsort(mix(np.arange(count, dtype=np.int64), seed_key(*parts)), kind="stable").astype(np.int64)
