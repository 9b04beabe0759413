"""`scob evaluate --masks`: do the masks of a run lie on the objects, where the data has segmentation or boxes?

Two sets of (image, class) pairs are measured: the observed labels of the training images, and the labels that the
model predicts, where they are right, for images that it was not trained on.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scob.config import Config
from scob.data.feed import unwrap
from scob.data.images import ImageFiles
from scob.data.readers import SplitError
from scob.data.readers.voc import CLASSES as VOC_CLASSES
from scob.data.split import ObjectBox, ObjectMasks, Split
from scob.errors import UserError
from scob.files import write_atomically
from scob.inference.evaluate import DataOptions, open_labelled, source_of
from scob.inference.explain import Explanation, explain_images
from scob.inference.guidance_masks import (
    guidance_rates,
    guidance_settings,
    observed_pairs,
    segmented_pairs,
)
from scob.inference.mask_measures import MeasuredPair, measure_pair, summarise
from scob.inference.mask_report import GuidanceRates, MaskEvaluation, Population
from scob.inference.model import InferenceOptions, Scob
from scob.inference.predictions import NamedPerImage, NamingRule
from scob.labels import ABSENT, PRESENT
from scob.training.find_model import find_model
from scob.training.finished_run import FinishedRun
from scob.training.run_data import Data
from scob.training.run_splits import run_splits


def evaluate_masks(
    run: Path | str,
    data: str | None = None,
    split: str | None = None,
    *,
    out: Path | None = None,
    naming: NamingRule = NamingRule(),
    reading: DataOptions = DataOptions(),
    running: InferenceOptions = InferenceOptions(),
) -> MaskEvaluation:
    """Measure the masks of a finished run; with `out`, write masks.json to that folder.

    Observed labels are measured on the run's own training images. Predicted labels, which `naming` selects, are
    measured on a split of `data`, by default the split that the run reports on, without the images that were trained
    on: if the run has no other images, on those it held out.
    """
    found = find_model(Path(run))
    if found.run is None:
        raise UserError(f"{found.path} is not a run: its labels and mask settings are needed, so give the run folder")
    finished = _opened(found.run, reading.skip_bad)
    config, images = finished.config, finished.data
    model = Scob.from_pretrained(found.path, running.device)
    source, reading = source_of(found.path, data, reading, config)
    unseen = _open_unseen(source, split, model.classes, reading, config)
    seen = trained_on(unseen, source, images.train, config.data.source)
    unseen = unseen.select(np.flatnonzero(~seen))
    work = _Measuring(model, config, running, 2 * (len(images.train) + len(unseen)))
    notes: list[str] = []
    observed = predicted = None
    if not _has_truth(images.train):
        notes.append(f"Observed labels are not measured: {config.data.source} has neither segmentation nor boxes")
    else:
        observed = work.population(images.train, config.data.source, observed_names(images))
    if not len(unseen):
        notes.append(
            "Predicted labels are not measured: every image of the split was trained on; name others with --data or "
            "--split"
        )
    elif not _has_truth(unseen):
        notes.append(f"Predicted labels are not measured: {source} has neither segmentation nor boxes")
    else:
        predicted = work.population(unseen, source, naming, int(seen.sum()))
    if not any(population is not None and population.measures.pairs for population in (observed, predicted)):
        raise UserError(
            f"no mask can be measured: {notes[0] if notes else 'no named class is segmented or boxed'}; "
            "give data with segmentation or boxes (VOC, COCO) with --data"
        )
    evaluation = MaskEvaluation(
        found.run.name, model.card.method, model.card.weights, model.size, guidance_settings(config), observed,
        predicted, tuple(notes),
    )  # fmt: skip
    if out is not None:
        text = json.dumps(evaluation.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomically(Path(out) / "masks.json", text)
    return evaluation


def _open_unseen(
    source: str, split: str | None, classes: tuple[str, ...], reading: DataOptions, config: Config
) -> Split:
    """The split to measure predicted labels on; without another one, that of the training and held-out images."""
    try:
        return open_labelled(source, split, classes, reading, config)
    except SplitError:
        if split is not None or source != config.data.source:
            raise
        return open_labelled(source, run_splits(config).train, classes, reading, config)


def observed_names(images: Data) -> list[tuple[str, ...]]:
    """The classes observed in each training image, as they were drawn (a method with full labels sees more)."""
    row_of = {name: row for row, name in enumerate(images.drawn.images)}
    drawn = images.drawn.select([row_of[name] for name in images.train.labels.images])
    names: list[list[str]] = [[] for _ in range(len(drawn))]
    for row, column in zip(*observed_pairs(drawn), strict=True):
        names[row].append(drawn.classes[column])
    return [tuple(own) for own in names]


def trained_on(split: Split, source: str, train: Split, train_source: str) -> NDArray[np.bool_]:
    """Which images of a split (N,) are also training images: the same file, or the same drawn scene.

    VOC 2012 contains images of VOC 2007 under other names: 2007_000032 is 000032.
    """
    own = set(_identities(train, train_source))
    seen = np.array([name in own for name in _identities(split, source)], dtype=bool)
    if split.labels.classes == train.labels.classes == VOC_CLASSES:
        names = {name.removeprefix("2007_") for name in train.labels.images}
        seen |= np.array([name.removeprefix("2007_") in names for name in split.labels.images], dtype=bool)
    return seen


def _identities(split: Split, source: str) -> list[str]:
    images, selected = unwrap(split.images)
    if not isinstance(images, ImageFiles):
        return [f"{source} {name}" for name in split.labels.images]
    rows = range(len(split)) if selected is None else selected.tolist()
    return [str(Path(images.paths[row]).absolute()) for row in rows]


def _has_truth(split: Split) -> bool:
    return split.masks is not None or split.boxes is not None


def _opened(folder: Path, skip_bad: bool) -> FinishedRun:
    """The run, which skips broken images if it did so in training, or if asked to."""
    run = FinishedRun.open(folder)
    reading = run.config.data.model_copy(update={"skip_bad": skip_bad or run.config.data.skip_bad})
    return FinishedRun(run.folder, run.config.model_copy(update={"data": reading}), run.summary)


class _Measuring:
    """A model at work on one population after the other."""

    def __init__(self, model: Scob, config: Config, running: InferenceOptions, total: int) -> None:
        self.model, self.config, self.running, self.total = model, config, running, total
        self.done = 0

    def population(
        self, split: Split, source: str, classes: Sequence[tuple[str, ...]] | NamingRule, seen: int = 0
    ) -> Population:
        """Measure the classes named for each image, or those that a rule selects and that are there."""
        end = self.done + 2 * len(split)
        measured: list[MeasuredPair] = []
        pairs: list[tuple[int, int]] = []
        counts = {"without_truth": 0, "not_there": 0, "unknown": 0, "pairs_without_truth": 0}
        column_of = {name: column for column, name in enumerate(self.model.classes)}
        for start in range(0, len(split), self.running.batch):
            rows = range(start, min(start + self.running.batch, len(split)))
            truths = {row: _truth(split, row) for row in rows}
            known = [row for row in rows if any(truth is not None for truth in truths[row])]
            counts["without_truth"] += len(rows) - len(known)
            for row, e in self._explained(split, known, classes):
                label = column_of[e.label]
                if isinstance(classes, NamingRule) and split.labels.values[row, label] != PRESENT:
                    absent = split.labels.values[row, label] == ABSENT
                    counts["not_there" if absent else "unknown"] += 1
                    continue
                pair = measure_pair(e, label, *truths[row])
                if pair.pixels is None and pair.peak_in_box is None:
                    counts["pairs_without_truth"] += 1
                    continue
                measured.append(pair)
                pairs.append((row, label))
            self._advance(len(rows))
        guidance = self._guidance(split, pairs)
        self._advance(end - self.done)
        return Population(
            data=Path(source).name, split=split.name, predicted=isinstance(classes, NamingRule), images=len(split),
            skipped=len(split.skipped), trained_on=seen, guidance=guidance,
            measures=summarise(measured, self.model.classes), **counts,
        )  # fmt: skip

    def _explained(
        self, split: Split, rows: Sequence[int], classes: Sequence[tuple[str, ...]] | NamingRule
    ) -> list[tuple[int, Explanation]]:
        """The explanations of some rows, with the row of each."""
        if not rows:
            return []
        pictures = [split.images.load(row, self.model.size) for row in rows]
        named = classes if isinstance(classes, NamingRule) else NamedPerImage(tuple(classes[row] for row in rows))
        row_of = {f"image {number}": row for number, row in enumerate(rows)}
        return [(row_of[e.image], e) for e in explain_images(self.model, pictures, named, batch=len(rows))]

    def _guidance(self, split: Split, pairs: Sequence[tuple[int, int]]) -> tuple[GuidanceRates, ...]:
        """The guidance masks of the same pairs, at stage 4 and at stage 3."""
        if split.masks is None or not pairs:
            return ()
        rows, labels = np.array(pairs, dtype=np.int64).T
        grids = self.model.card.grids
        segmented = segmented_pairs(split.masks, (rows, labels), grids)
        if not len(segmented):
            return ()
        settings, workers = guidance_settings(self.config), self.config.data.workers
        rates = guidance_rates(self.model, settings, split, segmented, workers, self._advance)
        return tuple(GuidanceRates(3 + n, grids[n], len(segmented), rates[n]) for n in (1, 0))

    def _advance(self, images: int) -> None:
        self.done += images
        if self.running.progress is not None:
            self.running.progress(self.done, self.total)


def _truth(split: Split, row: int) -> tuple[ObjectMasks | None, tuple[ObjectBox, ...] | None]:
    masks = split.masks.load(row) if split.masks is not None else None
    return masks, split.boxes.load(row) if split.boxes is not None else None
