"""A finished run: its settings, results, images and estimates, for everything that happens after training."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scob.config import Config
from scob.data.feed import Feed, FeedOptions
from scob.data.readers import SplitError
from scob.data.split import ChosenImages, Split
from scob.errors import UserError
from scob.labels import Labels
from scob.parallel import start
from scob.training.build import Experiment
from scob.training.estimates import load_estimates, ranked_by
from scob.training.find_model import find_model
from scob.training.model_folder import load_network
from scob.training.run_data import Data, load_data
from scob.training.run_folder import RunFolder
from scob.training.run_splits import HELD_OUT, as_it_began
from scob.training.scoring import model_source, score_images
from scob.training.unfinished import summary_so_far


@dataclass(frozen=True)
class RunImages:
    """Everything a run knows about its own images: those it trained on and those it held out.

    `held_out` (N,) marks the latter. `estimates` (N, L) is NaN for images that the estimator never saw.
    """

    split: Split
    observed: Labels
    held_out: NDArray[np.bool_]
    estimates: NDArray[np.float32] | None
    k: float


@dataclass(frozen=True)
class FinishedRun:
    """A run with a model. `summary` is its summary.json, or what is known so far of a run that was stopped.

    A run that has just been trained still has its `experiment`; a run opened from its folder does not.
    """

    folder: RunFolder
    config: Config
    summary: dict[str, Any]
    experiment: Experiment | None = field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, path: Path) -> "FinishedRun":
        """Open the run in a folder. One that was stopped stands where its best epoch so far is."""
        folder = RunFolder(path)
        config = folder.read_config()
        return cls(folder, config, folder.summary() if folder.finished else summary_so_far(folder, config))

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.folder.model if self.folder.finished else find_model(self.path).path

    @property
    def curve(self) -> list[dict[str, Any]]:
        """What was measured after each epoch."""
        points: list[dict[str, Any]] = self.summary["curve"]
        return points

    def scores(self, split: str = "train", device: str = "auto") -> Tensor:
        """The model's predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU, computed now."""
        if self.experiment is not None:
            return self.experiment.scores(split)
        images = {"train": self.data.train, "holdout": self.data.holdout, "evaluate": self.data.evaluate}[split]
        if images is None:
            raise UserError(f"the run in {self.path} has no {split} images")
        processes = start(device)
        network, card = load_network(self.model, processes.device)
        source = model_source(network, card, processes.device)
        with Feed(images, card.size, processes.device, FeedOptions(self.config.data.workers)) as feed:
            mirror = self.config.train.flip_test
            return score_images(network, source, feed, mirror=mirror, processes=processes)

    def recovered(self) -> NDArray[np.float32]:
        """What the unknown labels of the training images are ranked by, (N, L): see `ranked_by`."""
        e = self.experiment
        network, data = (load_network(self.model)[0], self.data) if e is None else (e.network, e.data)
        estimates = load_estimates(self.path, data.observed.images, data.observed.classes)
        return ranked_by(network, self.scores("train").numpy(), estimates, data.observed.values)

    @cached_property
    def data(self) -> Data:
        """The run's images and its own observed labels, read again from the data it was given."""
        # The run's label file is what it saw, even if the file or draw it came from has changed since.
        labels = self.config.labels.model_copy(update={"file": str(self.folder.labels_file)})
        config = self.config.model_copy(update={"labels": labels})
        try:
            return load_data(as_it_began(config, reports="evaluation" in self.summary), latecomers=False)
        except SplitError:  # the images it reported on may be gone; most uses of a run do not need them
            return load_data(as_it_began(config, reports=False), latecomers=False)

    @cached_property
    def images(self) -> RunImages:
        """The run's own images: those it trained on and those it held out."""
        return run_images(self.data, self.folder)


def run_images(data: Data, folder: RunFolder) -> RunImages:
    """Put training and held-out images together again."""
    drawn = data.drawn
    row_of = {name: row for row, name in enumerate(drawn.images)}
    held_out = np.zeros(len(drawn), dtype=bool)
    reported = data.evaluate if data.evaluate is not None and data.evaluate.name == HELD_OUT else None
    parts = [part for part in (data.holdout, reported) if part is not None]
    for part in parts:
        held_out[[row_of[name] for name in part.labels.images]] = True
    images = data.train.images
    # `load_data` selects all of them from one split; `ChosenImages` wraps the images of that split.
    if isinstance(images, ChosenImages) and parts:
        images = images.images
    split = replace(data.train, labels=drawn, images=images, masks=None, boxes=None)
    return RunImages(split, drawn, held_out, load_estimates(folder.path, drawn.images, drawn.classes), data.k)
