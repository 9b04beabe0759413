"""What is known of the classes themselves: a vector for each, from a file, and which of them keep company.

A file gives word vectors or text embeddings: JSON ({"dog": [0.1, ...], ...}) or text with a class and its numbers on
a line, as GloVe and word2vec are written (a class of several words is one entry, its words joined by a space, `_` or
`-`, or else the mean of its words). Without a file the vectors are learned with the rest.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, Labels

PRIOR = 5.0  # images that the marginal frequency counts for in a conditional one


def _entries(path: Path) -> Iterator[tuple[str, list[float]]]:
    """Names and vectors of a file."""
    try:
        if path.suffix == ".json":
            for name, values in json.loads(path.read_text(encoding="utf-8")).items():
                yield str(name), [float(v) for v in values]
            return
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                words = re.split(r"[\s,]+", line.strip())
                if number == 0 and len(words) == 2 and all(w.isdigit() for w in words):
                    continue  # word2vec begins with its own size
                place = next((i for i in range(1, len(words)) if _is_number(words[i:])), len(words))
                if place < len(words):
                    yield " ".join(words[:place]), [float(w) for w in words[place:]]
    except FileNotFoundError:
        raise UserError(f"there is no file of class vectors at {path}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not a file of class vectors (JSON, or a name and numbers on a line): {error}"
        ) from error


def _is_number(words: list[str]) -> bool:
    try:
        [float(w) for w in words]
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


def read_vectors(path: Path, classes: Iterable[str]) -> Tensor:
    """A vector for each class, (L, D), each of length 1."""
    names = [_plain(c) for c in classes]
    wanted = {*names, *(word for name in names for word in name.split())}
    found = {name: values for raw, values in _entries(path) if (name := _plain(raw)) in wanted}
    rows: list[list[float]] = []
    for name in names:
        parts = [found[name]] if name in found else [found[w] for w in name.split() if w in found]
        if not parts:
            raise UserError(f"{path} has no vector for the class {name!r}: add one, or leave the file out")
        if len({len(part) for part in parts}) > 1:
            raise UserError(f"{path}: the vectors of the class {name!r} are of different lengths")
        rows.append([sum(values) / len(parts) for values in zip(*parts, strict=True)])
    if len({len(row) for row in rows}) > 1:
        raise UserError(f"{path}: the class vectors are of different lengths")
    made = torch.tensor(rows)
    if not torch.isfinite(made).all() or not made.shape[1]:
        raise UserError(f"{path}: a class vector holds no number, or one that is not finite")
    return torch.nn.functional.normalize(made, dim=1)


def company(observed: Labels) -> Tensor:
    """P(c' present | c present) from observed labels alone, (L, L), 1 on the diagonal.

    Counted over the images in which c is observed present and c' is observed at all, and drawn towards the frequency
    of c' where those are few; single positives, which show no pair, give the frequencies and nothing else.
    """
    present = (observed.values == PRESENT).astype(np.float64)
    absent = (observed.values == ABSENT).astype(np.float64)
    seen = present.sum(axis=0) + absent.sum(axis=0)
    out_of = np.where(absent.any(axis=0), seen, len(observed))
    frequency = present.sum(axis=0) / np.maximum(1, out_of)
    together, asked = present.T @ present, present.T @ (present + absent)
    conditional = (together + PRIOR * frequency[None, :]) / (np.where(absent.any(), asked, 0) + PRIOR)
    conditional = np.clip(conditional, 0, 1)
    np.fill_diagonal(conditional, 1)
    return torch.from_numpy(conditional.astype(np.float32))
