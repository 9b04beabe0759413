"""The images and labels of a run: read, observed, and split into training, held-out and reported images."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob import methods
from scob.config import Config
from scob.data.label_bias import label_odds
from scob.data.progress import Progress
from scob.data.readers import check_measurable, open_split, read_split
from scob.data.split import ReadOptions, Split
from scob.draws import mix, seed_key
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.training.run_splits import HELD_OUT, as_it_began, open_reported, run_splits

REPORTED_SHARE = 0.2  # of the training images, if results are measured on some of them (data.evaluate=held-out)
GUESSED_FACTOR = 1.5  # photographs with one tag each show about 1.5 classes (VOC)

ENOUGH = 1000  # held-out images that tell how a model scores


@dataclass(frozen=True)
class Data:
    """The images of a run: those to learn from, those held out to choose the epoch, those reported on."""

    train: Split
    holdout: Split | None
    evaluate: Split | None
    observed: Labels  # of `train`: what the method may see
    holdout_observed: Labels | None
    drawn: Labels  # observed labels of train and holdout together, the label file of the run folder
    k: float
    unused: tuple[str, ...] = ()  # the other splits of the source

    @property
    def splits(self) -> dict[str, Split]:
        """The splits that there are, by their part in the run: train, holdout, evaluate."""
        every = {"train": self.train, "holdout": self.holdout, "evaluate": self.evaluate}
        return {name: split for name, split in every.items() if split is not None}

    @property
    def told_at_the_end(self) -> str:
        """The part whose scores `Method.finish` is told: the images held out, or those trained on if these are few."""
        return "holdout" if self.holdout is not None and len(self.holdout) >= ENOUGH else "train"


@dataclass(frozen=True)
class ReadImages:
    """What was read for a run: the training split (nothing held out yet), its observed labels, the reported split."""

    train: Split
    drawn: Labels
    evaluate: Split | None
    unused: tuple[str, ...] = ()  # the other splits of the source


def observe(full: Labels, config: Config, stored: Labels | None, split: Split | None = None) -> Labels:
    """The observed labels: drawn anew, or taken from `stored`, the labels of `labels.file`.

    `split` is what the labels belong to: an uneven draw (`labels.bias`) looks at its boxes.
    """
    s = config.labels
    if stored is not None:
        if stored.classes != full.classes:
            raise UserError(
                f"{s.file} has different classes from {config.data.source}: give the label file of this data, or leave "
                "out labels.file to draw the labels again"
            )
        row_of = {name: row for row, name in enumerate(stored.images)}
        missing = next((name for name in full.images if name not in row_of), None)
        if missing is not None:
            raise UserError(
                f"{s.file} does not list the image {missing!r} of {config.data.source}: draw the labels again, or "
                "skip images that it does not list with data.skip_bad=true"
            )
        return stored.select([row_of[name] for name in full.images])
    if s.kind == "single" and s.bias != "uniform" and split is not None:
        drawn = full.single_positive(s.seed, label_odds(split, s.bias))
        return Labels(drawn.classes, drawn.images, drawn.values, f"{drawn.origin}, by {s.bias}")
    if s.kind == "single":
        return full.single_positive(s.seed)
    if s.kind == "partial":
        return full.partial(s.fraction, s.seed)
    return full


def holdout_rows(observed: Labels, share: float, seed: int) -> NDArray[np.bool_]:
    """Which images are held out: drawn by image id, never an image of a class with fewer than three positives.

    Nor is the last positive of any class: the next image in the draw takes its place.
    """
    present = observed.values == PRESENT
    left = present.sum(axis=0)
    eligible = ~(present & (left < 3)).any(axis=1)
    draw = np.where(eligible, mix(observed.keys, seed_key(seed, "holdout")), np.uint64(2**64 - 1))
    order = np.argsort(draw, kind="stable")[: int(eligible.sum())]
    wanted = int(share * len(observed))
    held_out = np.zeros(len(observed), dtype=bool)
    held_out[order[:wanted]] = True
    if (present[~held_out].any(axis=0) == (left > 0)).all():
        return held_out
    held_out[:] = False
    for row in order:
        if held_out.sum() == wanted:
            break
        if (left[present[row]] > 1).all():
            held_out[row] = True
            left -= present[row]
    return held_out


def limited_rows(labels: Labels, limit: int, seed: int, listed: Labels | None = None) -> NDArray[np.int64]:
    """`limit` rows, drawn by image id and `seed`, in the order of the source; a larger limit adds to a smaller one.

    Only images in `listed` are drawn if it has enough of them: a label file, or the images a run began with.
    """
    first = np.ones(len(labels), dtype=bool)
    if listed is not None:
        names = set(listed.images)
        known = np.array([name in names for name in labels.images], dtype=bool)
        first = known if known.sum() >= min(limit, len(labels)) else first
    return np.sort(np.lexsort((mix(labels.keys, seed_key(seed, "limit")), ~first))[:limit])


def without_latecomers(split: Split, stored: Labels, file: str) -> Split:
    """The split without images that the label file does not list (these go to `skipped`)."""
    known = set(stored.images)
    rows = [row for row, name in enumerate(split.labels.images) if name in known]
    if len(rows) in (0, len(split)):  # a file that lists none of them belongs to other data
        return split
    late = tuple(f"{name}: {file} does not list it" for name in split.labels.images if name not in known)
    return replace(split.select(rows), skipped=(*split.skipped, *late))


def reading_options(config: Config) -> ReadOptions:
    """How the source is read."""
    return ReadOptions(difficult=config.data.difficult, skip_bad=config.data.skip_bad, separator=config.data.separator)


def listed_images(config: Config) -> Split:
    """The training images of a finished run as its source lists them. They are not decoded: some may be broken."""
    train = run_splits(as_it_began(config, reports=False)).train
    return read_split(config.data.source, train, reading_options(config), config.data.format)


def read_images(
    config: Config, latecomers: bool = True, began_with: Labels | None = None, progress: Progress | None = None
) -> ReadImages:
    """Read the training split and the reported split, and observe the labels.

    Images that `labels.file` does not list are an error, unless `data.skip_bad` is set or `latecomers` is false: then
    they are left out. With `data.limit`, a resumed run keeps the images it `began_with`.
    """
    d = config.data
    splits, options = run_splits(config), replace(reading_options(config), progress=progress)
    split = open_split(d.source, splits.train, options, d.format)
    stored = Labels.load(Path(config.labels.file)) if config.labels.file else None
    if stored is not None and (d.skip_bad or not latecomers):
        split = without_latecomers(split, stored, config.labels.file)
    if d.limit:
        split = split.select(
            limited_rows(split.labels, d.limit, config.labels.seed, stored if began_with is None else began_with)
        )
    evaluate = open_reported(config, splits, replace(options, classes=split.labels.classes))
    return ReadImages(split, observe(split.labels, config, stored, split), evaluate, splits.unused)


def arrange(images: ReadImages, config: Config) -> Data:
    """Hold some training images out, and choose the labels of the others that the method may see."""
    split, drawn = images.train, images.drawn
    given = split.labels if methods.find(config.method).labels == "full" else drawn
    if not (given.values == PRESENT).any():
        raise UserError(
            f"{config.data.source}: no image of the split {split.name!r} has a positive label, so there is nothing to "
            "learn from"
        )
    k = config.labels.k or split.expected_positives or guessed_positives(drawn)
    evaluate, rows = images.evaluate, np.arange(len(split))
    if config.data.evaluate == HELD_OUT:
        evaluate, rows = reported_part(split, drawn, config)
    if config.train.holdout:
        held_out = holdout_rows(drawn.select(rows), config.train.holdout, config.labels.seed)
        if held_out.any() and not held_out.all():
            kept, held = rows[~held_out], rows[held_out]
            return Data(
                split.select(kept), split.select(held), evaluate, given.select(kept), drawn.select(held), drawn, k,
                images.unused,
            )  # fmt: skip
    if len(rows) < len(split):
        split, given = split.select(rows), given.select(rows)
    return Data(split, None, evaluate, given, None, drawn, k, images.unused)


def reported_part(split: Split, drawn: Labels, config: Config) -> tuple[Split, NDArray[np.int64]]:
    """Some training images to report on, by the labels that are observed, and the rows of the others."""
    held_out = holdout_rows(drawn, REPORTED_SHARE, seed_key(config.labels.seed, "reported"))
    rows = np.flatnonzero(held_out)
    labels = drawn.select(rows)
    part = replace(split.select(rows), name=HELD_OUT, labels=replace_values(labels, reference(labels.values)))
    check_measurable(part, f"{config.data.source}, held-out images")
    return part, np.flatnonzero(~held_out)


def replace_values(labels: Labels, values: NDArray[np.int8]) -> Labels:
    """Labels of the same images and classes with other values."""
    return Labels(labels.classes, labels.images, values, labels.origin)


def reference(observed: NDArray[np.int8]) -> NDArray[np.int8]:
    """What scores are compared with if only observed labels (N, L) may be used.

    If there are at least as many known negatives as positives, unknown labels are left out. Otherwise (one positive per
    image, or hardly any negatives) unknown counts as absent.
    """
    if (observed == ABSENT).sum() >= (observed == PRESENT).sum():
        return observed
    return np.where(observed == PRESENT, PRESENT, ABSENT).astype(np.int8)


def load_data(
    config: Config, latecomers: bool = True, began_with: Labels | None = None, progress: Progress | None = None
) -> Data:
    """Read the splits, observe the labels, hold some images out."""
    return arrange(read_images(config, latecomers, began_with, progress), config)


def guessed_positives(observed: Labels) -> float:
    """k of Eq. 11, guessed from the labels that were given: they are usually not all that an image shows."""
    positives = (observed.values == PRESENT).sum(axis=1)
    return GUESSED_FACTOR * (float(positives[positives > 0].mean()) if positives.any() else 1.0)


def expected_positives(observed: Labels, reported: Labels | None = None) -> tuple[float, str]:
    """k of Eq. 11 for a user's own images, and a phrase saying where it comes from.

    It is the mean of labels that are complete (`reported`, or `observed` itself), else a guess.
    """
    most = float(len(observed.classes))
    for labels, source in ((reported, "the validation labels"), (observed, "the labels, which are complete")):
        if labels is not None and (labels is reported or not (labels.values == UNKNOWN).any()):
            positives = (labels.values == PRESENT).sum(axis=1)
            return float(np.clip(positives.mean(), 1.0, most)), f"counted in {source}"
    guess = float(np.clip(guessed_positives(observed), 1.0, most))
    return guess, f"a guess: {GUESSED_FACTOR} for each label given"
