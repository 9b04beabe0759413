"""Observed labels. One encoding everywhere: +1 observed present, -1 observed absent, 0 unknown."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.draws import mix, seed_key, text_keys
from scob.errors import UserError
from scob.files import write_atomically
from scob.tensor_file import RawTensor, file_pieces

PRESENT, ABSENT, UNKNOWN = 1, -1, 0
FORMAT = "scob-labels-1"


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known about each image: `values[i, c]` is +1, -1 or 0 for `images[i]` and `classes[c]`.

    `origin` is where the values come from ("full", "single-positive seed 0", a file name).
    """

    classes: tuple[str, ...]
    images: tuple[str, ...]
    values: NDArray[np.int8]
    origin: str = "given"
    keys: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        raw = np.asarray(self.values)
        # Before the cast: 257 would become 1 in eight bits, and 0.5 would become 0.
        if raw.size and not np.isin(raw, (PRESENT, ABSENT, UNKNOWN)).all():
            raise UserError("a label is neither +1 (present) nor -1 (absent) nor 0 (unknown)")
        values = np.ascontiguousarray(raw, dtype=np.int8)
        if values.shape != (len(self.images), len(self.classes)):
            raise UserError(
                f"labels have shape {values.shape}, but there are {len(self.images)} images "
                f"and {len(self.classes)} classes"
            )
        for kind, names in (("class", self.classes), ("image", self.images)):
            if len(set(names)) != len(names):
                seen: set[str] = set()
                repeated = next(n for n in names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
                raise UserError(f"the {kind} {repeated!r} is listed twice")
        object.__setattr__(self, "values", values)
        try:
            text_keys(self.classes)
            object.__setattr__(self, "keys", text_keys(self.images))
        except UnicodeEncodeError as error:
            raise UserError(f"the name {error.object!r} is not valid text: it contains a lone surrogate") from None

    def __len__(self) -> int:
        return len(self.images)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over classes, images and values: equal for equal labels, even if their origins differ."""
        digest = hashlib.sha256(json.dumps([self.classes, self.images]).encode())
        digest.update(self.values.tobytes())
        return digest.hexdigest()

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> "Labels":
        """The labels of some images, in the order of `rows`."""
        indices = np.asarray(rows, dtype=np.int64)
        return Labels(self.classes, tuple(self.images[i] for i in indices), self.values[indices], self.origin)

    def single_positive(self, seed: int, odds: NDArray[np.float64] | None = None) -> "Labels":
        """Keep one positive per image, drawn by seed and image id; everything else becomes unknown.

        An image without a positive keeps nothing. The draw for one image does not depend on the others. `odds` (N, L),
        at least one of them positive where there is a positive label, make some labels more likely than others.
        """
        present = self.values == PRESENT
        rows = np.flatnonzero(present.any(axis=1))
        priority: NDArray[np.generic] = self._priorities(seed_key(seed, "single-positive"))
        if odds is not None:  # the largest of u ** (1 / odds), or of its logarithm, is a draw by these odds
            uniform = np.minimum((priority.astype(np.float64) + 1) / 2.0**64, 1 - 1e-12)
            priority = np.log(uniform) / np.where(odds > 0, odds, 1.0)
            present = present & (odds > 0)
        priority = np.where(present, priority, 0 if odds is None else -np.inf)[rows]
        values = np.zeros_like(self.values)
        if len(rows):
            values[rows, priority.argmax(axis=1)] = PRESENT
        return Labels(self.classes, self.images, values, f"single-positive seed {seed}")

    def partial(self, fraction: float, seed: int) -> "Labels":
        """Keep this share of each image's known labels, positive and negative, and at least one."""
        if not 0 < fraction <= 1:
            raise UserError(f"the share of labels to keep must be in (0, 1], but is {fraction}")
        known = self.values != UNKNOWN
        count = known.sum(axis=1)
        keep = np.minimum(np.maximum(1, np.rint(fraction * count).astype(np.int64)), count)
        priority = np.where(known, self._priorities(seed_key(seed, "partial")), 0)
        rank = np.argsort(np.argsort(~priority, axis=1, kind="stable"), axis=1, kind="stable")
        values = np.where(rank < keep[:, None], self.values, UNKNOWN).astype(np.int8)
        return Labels(self.classes, self.images, values, f"partial {fraction:g} seed {seed}")

    def _priorities(self, salt: int) -> NDArray[np.uint64]:
        """A random 64-bit number, never 0, for every image and class; it depends on these two and `salt` alone."""
        if not self.classes:
            return np.zeros((len(self.images), 0), np.uint64)
        lanes = text_keys(self.classes)
        per_image = mix(self.keys, salt).astype(np.int64)
        return np.stack([mix(per_image, int(lane)) for lane in lanes], axis=1) | np.uint64(1)

    def statistics(self) -> dict[str, object]:
        """The counts to look at first."""
        present = self.values == PRESENT
        return {
            "images": len(self.images),
            "classes": len(self.classes),
            "origin": self.origin,
            "positives per image": float(present.sum(axis=1).mean()) if len(self.images) else 0.0,
            "images without a positive": int((~present.any(axis=1)).sum()),
            "observed positive": int(present.sum()),
            "observed negative": int((self.values == ABSENT).sum()),
            "unknown share": float((self.values == UNKNOWN).mean()) if self.values.size else 0.0,
            "classes without a positive": [self.classes[c] for c in np.flatnonzero(~present.any(axis=0))],
            "per class": {
                name: {"positive": int(p), "negative": int(n)}
                for name, p, n in zip(
                    self.classes, present.sum(axis=0), (self.values == ABSENT).sum(axis=0), strict=True
                )
            },
        }

    def save(self, path: Path) -> str:
        """Write the label file atomically; returns the fingerprint stored in it."""
        names = np.frombuffer(json.dumps(self.images).encode(), dtype=np.uint8)
        metadata = {
            "format": FORMAT,
            "classes": json.dumps(self.classes),
            "origin": self.origin,
            "fingerprint": self.fingerprint,
            "seal": _seal(self.fingerprint, self.origin),
        }
        tensors = {"values": RawTensor.of(self.values), "images": RawTensor.of(names)}
        write_atomically(path, file_pieces(tensors, metadata))
        return metadata["fingerprint"]

    @staticmethod
    def load(path: Path) -> "Labels":
        """Read a label file and check it against its own fingerprint."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != FORMAT:
                    raise UserError(f"{path} is not a Scob label file (its format is {metadata.get('format')!r})")
                if not metadata.keys() <= {"format", "classes", "origin", "fingerprint", "seal"}:
                    raise ValueError("it has an entry that label files do not have")
                classes = json.loads(metadata["classes"])
                images = json.loads(file.get_tensor("images").tobytes())
                if not all(isinstance(name, str) for name in [*classes, *images]):
                    raise ValueError("a name is not a string")
                labels = Labels(
                    tuple(classes), tuple(images), file.get_tensor("values"), metadata.get("origin", "given")
                )
        except FileNotFoundError:
            raise UserError(f"there is no label file at {path}") from None
        except (SafetensorError, KeyError, ValueError, TypeError, OSError, RecursionError) as error:
            raise UserError(f"{path} is damaged, or is not a Scob label file: {error}") from error
        seal = _seal(labels.fingerprint, labels.origin)
        if labels.fingerprint != metadata.get("fingerprint") or metadata.get("seal", seal) != seal:
            raise UserError(f"{path} does not match its own fingerprint: it was changed or damaged; draw it again")
        return labels


def _seal(fingerprint: str, origin: str) -> str:
    """SHA-256 over labels and origin; files of earlier versions have none."""
    return hashlib.sha256(f"{fingerprint} {origin}".encode()).hexdigest()
