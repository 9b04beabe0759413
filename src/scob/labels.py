"""Observed labels. One encoding everywhere: +1 observed present, -1 observed absent, 0 unknown."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scob.draws import mix, seed_key, text_keys
from scob.errors import UserError
from scob.files import write_atomically

PRESENT, ABSENT, UNKNOWN = 1, -1, 0
FORMAT = "scob-labels-1"


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known of each image: `values[i, c]` is +1, -1 or 0 for image `images[i]` and class `classes[c]`.

    `origin` says how the values came about ("full", "single-positive seed 0", a file name) and travels with the file.
    """

    classes: tuple[str, ...]
    images: tuple[str, ...]
    values: NDArray[np.int8]
    origin: str = "given"
    keys: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.values, dtype=np.int8)
        if values.shape != (len(self.images), len(self.classes)):
            raise UserError(
                f"labels have shape {values.shape}, but there are {len(self.images)} images and {len(self.classes)} classes"
            )
        if values.size and (values.min() < -1 or values.max() > 1):
            raise UserError("a label is neither +1 (present), -1 (absent) nor 0 (unknown)")
        for what, names in (("class", self.classes), ("image", self.images)):
            if len(set(names)) != len(names):
                seen: set[str] = set()
                twice = next(n for n in names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
                raise UserError(f"the {what} {twice!r} is listed twice")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "keys", text_keys(self.images))

    def __len__(self) -> int:
        return len(self.images)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over classes, images and values: equal for equal labels, whatever their origin."""
        digest = hashlib.sha256(json.dumps([self.classes, self.images]).encode())
        digest.update(self.values.tobytes())
        return digest.hexdigest()

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> "Labels":
        """The labels of some images, in the order of `rows`."""
        chosen = np.asarray(rows, dtype=np.int64)
        return Labels(self.classes, tuple(self.images[i] for i in chosen), self.values[chosen], self.origin)

    def single_positive(self, seed: int) -> "Labels":
        """Keep one positive an image, drawn by seed and image id; everything else becomes unknown.

        An image without a positive keeps nothing. The draw of one image does not depend on the others.
        """
        present = self.values == PRESENT
        priority = self._priorities(seed_key(seed, "single-positive"))
        chosen = np.where(present, priority, 0).argmax(axis=1)
        values = np.zeros_like(self.values)
        rows = np.flatnonzero(present.any(axis=1))
        values[rows, chosen[rows]] = PRESENT
        return Labels(self.classes, self.images, values, f"single-positive seed {seed}")

    def partial(self, fraction: float, seed: int) -> "Labels":
        """Keep that share of each image's labels, positive and negative (at least one); the rest become unknown."""
        if not 0 < fraction <= 1:
            raise UserError(f"the share of labels to keep must lie in (0, 1], not {fraction}")
        keep = max(1, round(fraction * len(self.classes)))
        order = np.argsort(self._priorities(seed_key(seed, "partial")), axis=1, kind="stable")[:, :keep]
        values = np.zeros_like(self.values)
        np.put_along_axis(values, order, np.take_along_axis(self.values, order, axis=1), axis=1)
        return Labels(self.classes, self.images, values, f"partial {fraction:g} seed {seed}")

    def _priorities(self, salt: int) -> NDArray[np.uint64]:
        """A random 64-bit number, never 0, for every image and class: keyed by both, so independent of all others."""
        lanes = text_keys(self.classes)
        per_image = mix(self.keys, salt).astype(np.int64)
        return np.stack([mix(per_image, int(lane)) for lane in lanes], axis=1) | np.uint64(1)

    def statistics(self) -> dict[str, object]:
        """Counts a person wants to see first."""
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
            "per class": {
                name: {"positive": int(p), "negative": int(n)}
                for name, p, n in zip(
                    self.classes, present.sum(axis=0), (self.values == ABSENT).sum(axis=0), strict=True
                )
            },
        }

    def save(self, path: Path) -> str:
        """Write the label file atomically; returns the fingerprint that is stored in it."""
        names = np.frombuffer(json.dumps(self.images).encode(), dtype=np.uint8)
        metadata = {
            "format": FORMAT,
            "classes": json.dumps(self.classes),
            "origin": self.origin,
            "fingerprint": self.fingerprint,
        }
        write_atomically(path, save({"values": self.values, "images": names}, metadata=metadata))
        return metadata["fingerprint"]

    @staticmethod
    def load(path: Path) -> "Labels":
        """Read a label file and check it against its own fingerprint."""
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != FORMAT:
                    raise UserError(f"{path} is not a Scob label file (its format is {metadata.get('format')!r})")
                images = json.loads(file.get_tensor("images").tobytes())
                labels = Labels(
                    tuple(json.loads(metadata["classes"])),
                    tuple(images),
                    file.get_tensor("values"),
                    metadata.get("origin", "given"),
                )
        except FileNotFoundError:
            raise UserError(f"there is no label file at {path}") from None
        except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
            raise UserError(f"{path} is damaged or is not a Scob label file: {error}") from error
        if labels.fingerprint != metadata.get("fingerprint"):
            raise UserError(f"{path} does not match its own fingerprint: it was changed or damaged; draw it again")
        return labels
