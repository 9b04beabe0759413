"""Rows in batches, for tests of feeding."""

import numpy as np


def batches(count: int = 40, size: int = 7) -> list[np.ndarray]:
    """0..count-1, `size` at a time."""
    return [np.arange(i, min(i + size, count)) for i in range(0, count, size)]
