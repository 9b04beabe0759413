"""The images that suggestions are about: what is known about them, how they scored, which files show them."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scob.data.check import broken_images
from scob.data.feed import unwrap
from scob.data.images import ImageFiles, cause
from scob.data.split import Split
from scob.errors import UserError
from scob.files import remove_dead_parts, write_atomically
from scob.inference.overlays import png
from scob.inference.scoring import Floats
from scob.labels import Labels
from scob.recovery.calibration import Calibrated


@dataclass(frozen=True)
class ScoredImages:
    """N images: observed labels, the model's scores (N, L), the estimator's values (N, L) with NaN for missing ones.

    `trained_on` (N,) marks those that the model was trained on; None: it was trained on none of them. `calibrated`
    turns scores into probabilities; without it, they stay what they are.
    """

    split: Split
    observed: Labels
    scores: Floats
    estimates: Floats | None = None
    trained_on: NDArray[np.bool_] | None = None
    calibrated: Calibrated = field(default_factory=Calibrated)

    @property
    def probability(self) -> Floats:
        """The calibrated scores, (N, L)."""
        return self.calibrated.probability(self.scores, self.trained_on)


def unlabelled(paths: Sequence[str], classes: tuple[str, ...]) -> tuple[Split, int]:
    """A split of unlabelled image files without the broken ones, and the number left out."""
    labels = Labels(classes, tuple(paths), np.zeros((len(paths), len(classes)), np.int8))
    split = Split("images", labels, ImageFiles(tuple(paths)))
    broken = broken_images(split)
    if len(broken) == len(paths):
        which = "the image cannot be read" if len(paths) == 1 else f"none of the {len(paths)} images can be read"
        raise UserError(f"{which}: {cause(broken[0])}")
    rows = [row for row in range(len(paths)) if row not in broken]
    return split.select(rows), len(broken)


def image_paths(split: Split) -> dict[str, str] | None:
    """The absolute path of every image of a split; None if they are not files."""
    images, selected = unwrap(split.images)
    if not isinstance(images, ImageFiles):
        return None
    rows = range(len(split)) if selected is None else selected.tolist()
    return {
        name: os.path.abspath(images.paths[row])  # noqa: PTH100 (links stay as they are)
        for name, row in zip(split.labels.images, rows, strict=True)
    }


def files_to_show(folder: Path, names: Iterable[str], split: Split) -> dict[str, str]:
    """The absolute path of each named image that the split has; images that are not files are saved in `folder`."""
    paths = image_paths(split)
    if paths is not None:
        return {name: paths[name] for name in names if name in paths}
    row_of = {name: row for row, name in enumerate(split.labels.images)}
    saved: dict[str, str] = {}
    pictures = folder.absolute() / "images"
    remove_dead_parts(pictures)
    for name in names:
        if name not in row_of:
            continue
        path = pictures / f"{row_of[name]:07d}.png"
        write_atomically(path, png(Image.fromarray(split.images.load(row_of[name]))))
        saved[name] = str(path)
    return saved
