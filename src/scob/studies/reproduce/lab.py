"""The runs of a study on one data set, with one file of observed labels for all methods. No run is repeated.

A run's folder is named after its settings. Two tables that need the same run share it, and an interrupted study
continues where it stopped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scob import __version__, methods
from scob.config import Config, merge, resolve
from scob.data.readers import splits_of
from scob.errors import UserError
from scob.files import write_atomically
from scob.parallel import Processes
from scob.studies.reproduce.naming import identify, labels_name, run_name, weights_name
from scob.studies.reproduce.variants import SCOB, Variant
from scob.training.checkpoint import list_checkpoints
from scob.training.events import Event, Listener, Note, ReadTrueMasks, RunBegins, progress_of, silent
from scob.training.finished_run import FinishedRun
from scob.training.inputs import Inputs, open_inputs
from scob.training.loop import Training
from scob.training.run_data import Data, load_data
from scob.training.run_folder import RunFolder
from scob.training.run_splits import HELD_OUT, how_measured, run_splits
from scob.training.train import SharedParts, train

WATCHED = "-watched"
TRUE_MASKS = "true_masks.json"


@dataclass(frozen=True)
class VariantRun:
    """A finished run of a variant."""

    variant: Variant
    seed: int
    finished: FinishedRun

    @property
    def config(self) -> Config:
        return self.finished.config

    @property
    def run(self) -> RunFolder:
        return self.finished.folder

    @property
    def summary(self) -> dict[str, Any]:
        return self.finished.summary

    @property
    def mAP(self) -> float:
        return self.number("mAP")

    def number(self, key: str) -> float:
        """A rate on the reported split (mAP, OP, ..., CF1); NaN if it is undefined."""
        evaluation = self.summary.get("evaluation") or {}
        value = evaluation.get(key, evaluation.get("at_threshold", {}).get(key))
        return float("nan") if value is None else float(value)


class Lab:
    """One data set under one set of settings, and its runs."""

    def __init__(
        self,
        tree: Mapping[str, Any],
        out: Path,
        seeds: int = 1,
        processes: Processes | None = None,
        listen: Listener = silent,
    ) -> None:
        self.tree, self.out, self.seeds, self.listen = dict(tree), Path(out), seeds, listen
        self.processes = processes or Processes()
        self.base = self.config(SCOB)
        self.id, self.title = identify(self.base.data.source, self.base.data.format)
        self._data: dict[str, Data] = {}
        self._inputs: tuple[str, Inputs] | None = None

    def config(self, variant: Variant, seed: int = 0) -> Config:
        """The settings of a variant."""
        config = resolve(
            merge(self.tree, variant.changes), f"the settings of {variant.title!r}", methods.section_names()
        )
        config.train.seed += seed
        return config

    @property
    def reports(self) -> bool:
        """Whether there is a split to report mAP on."""
        splits = run_splits(self.base)
        held_out = self.base.data.evaluate == HELD_OUT
        return held_out or splits.reported is not None or splits.table is not None

    def need_reported_split(self, name: str) -> None:
        """Raise an error if mAP cannot be measured."""
        if not self.reports:
            raise UserError(
                f"{name} needs a labelled split to report on besides the training split: name one with "
                f"data.evaluate=SPLIT ({self.base.data.source} has: "
                f"{', '.join(splits_of(self.base.data.source, self.base.data.format)) or 'none'})"
            )

    def labels_file(self, config: Config) -> Path:
        """The file of observed labels for this data set and label setting."""
        return self.out / "labels" / labels_name(self.id, config)

    def data(self, config: Config) -> Data:
        """The images and observed labels of a run; read once for all runs that see the same labels."""
        file = self.labels_file(config)
        if file.name not in self._data:
            stored = file.is_file()
            plain = config.model_copy(update={"method": "scob"})
            if stored:
                plain = _with_labels(plain, file)
            data = load_data(plain, progress=progress_of("reading images", self.listen))
            if not stored and self.processes.first:
                data.drawn.save(file)
            self.processes.wait()
            self._data[file.name] = data
            if (measured := how_measured(data.evaluate)) and self.processes.first:
                self.listen(Note(measured))
        data = self._data[file.name]
        if methods.find(config.method).labels == "full":
            return replace(data, observed=data.train.labels)
        return data

    def inputs(self, config: Config, data: Data) -> Inputs | None:
        """The calibrated backbone with its images and cached features, shared with the previous run if possible."""
        config = methods.find(config.method).adjust(config)
        m, t = config.model, config.train
        if m.freeze != "all" or t.feature_cache == "disk":
            return None
        seen = [config.data.model_dump(mode="json"), config.labels.file, m.backbone, m.calibrate_bn]
        key = json.dumps([*seen, t.seed, t.precision, t.feature_cache, t.holdout])
        if self._inputs is None or self._inputs[0] != key:
            self.close()
            self._inputs = key, open_inputs(config, data, self.processes, listen=self.listen)
        return self._inputs[1]

    def close(self) -> None:
        """Release the images and features that the last runs shared."""
        if self._inputs is not None:
            self._inputs[1].close()
        self._inputs = None

    def run(self, variant: Variant, seed: int = 0, loop: type[Training] = Training) -> VariantRun:
        """A finished run of the variant: an earlier one if there is one, else trained (or continued) now.

        A `loop` other than the default (one that watches the training) writes more to its folder, which then has a
        different name. Such a run also serves as a plain one.
        """
        config = self.config(variant, seed)
        name = run_name(self.id, self.base, config)
        watched = RunFolder(self.out / "runs" / (name + WATCHED))
        plain = RunFolder(self.out / "runs" / name)
        run = watched if loop is not Training or (watched.finished and not plain.finished) else plain
        if run.finished:
            self.listen(RunBegins(run.path.name, reused=True))
            return VariantRun(variant, seed, FinishedRun(run, config, run.summary()))
        data = self.data(config)
        self.listen(RunBegins(run.path.name))
        config = _with_labels(config, self.labels_file(config))

        def listen(event: Event) -> None:
            if isinstance(event, ReadTrueMasks) and self.processes.first:  # for the table, even if the run is reused
                counts = {"with segmentation": event.segmented, "images": event.images}
                write_atomically(run.path / TRUE_MASKS, json.dumps(counts))
            self.listen(event)

        inputs = None if list_checkpoints(run.checkpoints) else self.inputs(config, data)
        shared = SharedParts(data, self.processes, inputs)
        finished = train(config, run.path, resume=True, listen=listen, shared=shared, loop=loop)
        return VariantRun(variant, seed, FinishedRun(run, config, finished.summary))

    def runs(self, variant: Variant, loop: type[Training] = Training) -> list[VariantRun]:
        """One run per seed."""
        return [self.run(variant, seed, loop) for seed in range(self.seeds)]

    def used(self, outcomes: Sequence[VariantRun]) -> dict[str, str]:
        """What the numbers are based on: weights, images, labels, choice of the epoch."""
        c, first = self.base, outcomes[0].summary
        images = f"{self.title}: {first['train_images']} training images"
        if "evaluate_images" in first:
            split = first.get("evaluate_split", c.data.evaluate)
            images += f", reported on {first['evaluate_images']} of the split {split!r}"
        drawn = {o.summary["labels"]["fingerprint"]: o.summary["labels"]["origin"] for o in outcomes}
        drawn_files = [f"{origin}, one file for all methods (SHA-256 {key[:12]})" for key, origin in drawn.items()]
        missing = (first.get("evaluation") or {}).get("undefined") or []
        choice = {
            "last": "the last",
            "holdout": f"the best on held-out training images (holdout_labels: {c.train.holdout_labels})",
            "best-on-test": "the best on the reported split itself (best-on-test, for paper parity)",
        }[c.train.select]
        facts = {
            "Weights": weights_name(c.model.backbone),
            "Images": f"{images}, {c.data.size} x {c.data.size}",
            "Observed labels": "; ".join(drawn_files),
            "Epoch": f"{choice}, of {c.train.epochs}",
            "Seeds": ", ".join(str(seed) for seed in sorted({o.config.train.seed for o in outcomes})),
            "Scob": __version__,
        }
        if measured := first.get("measured"):
            facts["Measured"] = measured
        early = sum(_before_masks(o) for o in outcomes)
        if early:
            facts["Caution"] = f"in {early} of Scob's runs the chosen epoch is before masks and contrast begin"
        if missing:
            facts["Left out of mAP"] = f"{', '.join(missing)} (no known positive or negative)"
        return facts


@dataclass(frozen=True)
class ReproductionRequest:
    """What a reproduction was asked for: the data sets, where to write, and the rows that need more than data."""

    labs: tuple[Lab, ...]
    out: Path
    backbone_files: Mapping[str, str] = field(default_factory=dict)
    methods: tuple[str, ...] = ()

    @property
    def lab(self) -> Lab:
        return self.labs[0]

    def used(self, outcomes: Mapping[str, Sequence[VariantRun]]) -> dict[str, str]:
        """`Lab.used` of every data set (by id), each labelled with its title if there are several."""
        if len(self.labs) == 1:
            return self.lab.used(outcomes[self.lab.id])
        return {
            f"{what} ({lab.title})": value for lab in self.labs for what, value in lab.used(outcomes[lab.id]).items()
        }


def _before_masks(outcome: VariantRun) -> bool:
    """Whether a run of Scob chose an epoch of its initial phase, which has only L_class."""
    s = outcome.config.scob
    initial = s.init_epochs if s.optimisation == "em" and s.contrast != "none" else 0
    return outcome.config.method == "scob" and int(outcome.summary["selected_epoch"]) < initial


def _with_labels(config: Config, file: Path) -> Config:
    labels = config.labels.model_copy(update={"file": str(file.resolve())})
    return config.model_copy(update={"labels": labels})
