"""What is known about the classes: a vector for each, read from a file, and how often they occur together.

A file contains word vectors or text embeddings: JSON ({"dog": [0.1, ...], ...}), or text with one class and its numbers
per line, as in GloVe and word2vec files. A class of several words is looked up as one entry, its words joined by a
space, `_` or `-`; otherwise it is the mean of its words. Without a file, the vectors are learned.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

PRIOR = 5.0  # the frequency of a class counts as much as this many images in a conditional probability


def _entries(path: Path) -> Iterator[tuple[str, list[float]]]:
    """The names and vectors in a file."""
    try:
        if path.suffix == ".json":
            for name, values in json.loads(path.read_text(encoding="utf-8")).items():
                yield str(name), [float(v) for v in values]
            return
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                words = re.split(r"[\s,]+", line.strip())
                if number == 0 and len(words) == 2 and all(w.isdigit() for w in words):
                    continue  # word2vec files start with their size
                first = next((i for i in range(1, len(words)) if _are_numbers(words[i:])), len(words))
                if first < len(words):
                    yield " ".join(words[:first]), [float(w) for w in words[first:]]
    except FileNotFoundError:
        raise UserError(f"there is no file of class vectors at {path}") from None
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(
            f"{path} is not a file of class vectors (JSON, or a name and its numbers on each line): {error}"
        ) from error


def _are_numbers(words: list[str]) -> bool:
    try:
        [float(w) for w in words]
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


def read_vectors(path: Path, classes: Iterable[str]) -> Tensor:
    """A unit vector for each class, (L, D)."""
    names = [_plain(c) for c in classes]
    wanted = {*names, *(word for name in names for word in name.split())}
    vectors = {name: values for raw, values in _entries(path) if (name := _plain(raw)) in wanted}
    rows: list[list[float]] = []
    for name in names:
        parts = [vectors[name]] if name in vectors else [vectors[w] for w in name.split() if w in vectors]
        if not parts:
            raise UserError(f"{path} has no vector for the class {name!r}: add one, or train without the file")
        if len({len(part) for part in parts}) > 1:
            raise UserError(f"{path}: the vectors of the class {name!r} have different lengths")
        rows.append([sum(values) / len(parts) for values in zip(*parts, strict=True)])
    if len({len(row) for row in rows}) > 1:
        raise UserError(f"{path}: the class vectors have different lengths")
    matrix = torch.tensor(rows)
    if not torch.isfinite(matrix).all() or not matrix.shape[1]:
        raise UserError(f"{path}: a class vector is empty or contains a number that is not finite")
    return torch.nn.functional.normalize(matrix, dim=1)


def co_occurrence(observed: Labels) -> Tensor:
    """P(c' present | c present) from observed labels alone, (L, L), 1 on the diagonal.

    Counted over the images in which c is observed present and c' is observed at all; if c' is never observed absent,
    over all images in which c is observed present. Shrunk towards the frequency of c' if there are few of them. Without
    any pair of observed labels (`has_pairs`) there is nothing to count, and the result is the frequencies alone.
    """
    present = (observed.values == PRESENT).astype(np.float64)
    absent = (observed.values == ABSENT).astype(np.float64)
    negatives = absent.any(axis=0)
    frequency = present.sum(axis=0) / np.maximum(1, np.where(negatives, (present + absent).sum(axis=0), len(observed)))
    together, known = present.T @ present, present.T @ (present + absent)
    images = np.where(negatives[None, :], known, present.sum(axis=0)[:, None] if has_pairs(observed.values) else 0)
    conditional = (together + PRIOR * frequency[None, :]) / (images + PRIOR)
    np.fill_diagonal(conditional, 1)
    return torch.from_numpy(conditional.astype(np.float32))


def has_pairs(observed: NDArray[np.int8]) -> bool:
    """Whether any image has two labels that are observed present: (N, L) in {-1, 0, 1}."""
    return bool(((observed == PRESENT).sum(axis=1) > 1).any())
