"""Choose a run's settings from a user's images and labels."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scob import methods
from scob.algorithm.ipt import fitting_capacity
from scob.config import Config, merge, parse_overrides, resolve, with_preset
from scob.data.find_images import images_below
from scob.data.images import cause, rows_word
from scob.data.measure_images import image_size
from scob.data.readers import SplitError, hugging_face, infer_format, read_split
from scob.data.readers.table_rows import SUFFIXES
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import PRESENT
from scob.methods.image_contrast import KINDS
from scob.model.load_backbone import load_backbone
from scob.parallel import choose_device
from scob.training.choose_backbone import choose_backbone
from scob.training.continuation import settings_of_model
from scob.training.events import Listener, progress_of, silent
from scob.training.run_data import (
    Data,
    ReadImages,
    arrange,
    expected_positives,
    listed_images,
    read_images,
    reading_options,
)
from scob.training.run_splits import default_reported, how_measured
from scob.training.run_time import estimate_seconds

SAMPLE = 200  # images whose size is measured


@dataclass(frozen=True)
class Prepared:
    """A run ready to start, and what to tell the user about it."""

    config: Config
    data: Data
    images: int
    classes: int
    skipped: tuple[str, ...] = ()
    other_files: int = 0
    k_reason: str = ""
    single_image_classes: tuple[str, ...] = ()
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    init: Path | None = None

    @property
    def steps(self) -> int:
        return -(-len(self.data.train) // self.config.train.batch) * self.config.train.epochs


def prepare(
    source: str | Path,
    val: str | Path | None = None,
    backbone: str = "",
    device: str = "auto",
    init: str | Path | None = None,
    out: Path | None = None,
    overrides: Iterable[str] = (),
    estimate: bool = True,
    listen: Listener = silent,
) -> Prepared:
    """Settings for a folder with one folder of images per class, or for a label table, and how long training will take.

    `val` is a table that lists every class of its images; it is only reported on. Without a `backbone`,
    `choose_backbone` names one. `init` is a model folder to continue
    from: its backbone is copied to `out`, the folder of the new run, and `train` needs it too. `overrides`
    (`train.epochs=3`) win over what is chosen here; `listen` hears how far the work is.
    """
    if init is not None and out is None:
        raise UserError("to continue from a model, prepare(init=...) needs the folder of the new run: out=")
    out = None if out is None else Path(out)
    if out is not None and Path(source).is_dir() and out.resolve().is_relative_to(Path(source).resolve()):
        raise UserError(f"the run folder {out} would be among the images of {source}: give another one with --out")
    other_files = check_source(Path(source))
    if val is not None and not Path(val).exists():
        raise UserError(f"there is nothing at --val {val}: give a table (CSV) that lists every class of its images")
    torch_device = choose_device(device)
    asked = parse_overrides(overrides)
    if not backbone and init is None and "backbone" not in asked.get("model", {}):
        backbone, _ = choose_backbone(torch_device)
    given: dict[str, Any] = {
        "data": {
            "source": str(source),
            "skip_bad": True,
            "evaluate": elsewhere(val) if val is not None else default_reported(str(source)),
        },
        "labels": {"kind": "given"},
        "model": {"backbone": backbone} if backbone else {},
        "train": {"device": device},
    }
    if init is not None and out is not None:
        given = merge(given, settings_of_model(Path(init), out))
    first = resolve(merge(given, asked), "on the command line", methods.section_names())
    for name in sorted({first.method, *(asked.keys() & methods.section_names())}):
        methods.settings_of(first, name)  # refused before the images are read
    methods.class_for(first).adjust(first)
    body = load_backbone(first.model.backbone, first.model.freeze)  # before the images are read: it may be missing
    if val is not None:
        check_validation_classes(val, source, listed_images(first).labels.classes, reading_options(first))
    try:
        images = read_images(first, progress=progress_of("reading images", listen))
    except SplitError as error:
        raise UserError(f"--val {error}") if val is not None and str(val) in str(error) else error from None
    check_classes(images, source)
    settled = merge(given, asked)
    fitted = settings_from_data(images, first, torch_device, body.channels, settled)
    config = resolve(with_preset(fitted, settled), "on the command line", methods.section_names())
    k_reason = "as you asked"
    if not config.labels.k:
        reported = images.evaluate.labels if images.evaluate is not None else None
        k, k_reason = expected_positives(images.drawn, reported=reported)
        config.labels.k = round(k, 2)
    data = arrange(images, config)
    present = (data.drawn.values == PRESENT).sum(axis=0)
    prepared = Prepared(
        config, data, len(data.drawn), len(data.drawn.classes), data.train.skipped, other_files, k_reason,
        classes_with(1, data, present), notes=notes(data, present, other_files),
        init=None if init is None else Path(init),
    )  # fmt: skip
    return replace(prepared, seconds=estimate_seconds(config, data, listen)) if estimate else prepared


def check_source(source: Path) -> int:
    """Refuse a source that nothing can be learned from; returns how many of its files are not images."""
    if source.is_file():
        return 0
    if not source.exists():
        raise UserError(f"there is nothing at {source}: give a folder with one folder of images per class, or a CSV")
    images, others = images_below(source, empty=True)
    tables = [path for path in source.iterdir() if path.suffix.lower() in (*SUFFIXES, ".npy")]
    if not images and not hugging_face.recognises(source):
        beside = f" (it has {others} files of other kinds)" if others else ""
        raise UserError(f"the folder {source} contains no images{beside}")
    if images and not tables and all(Path(image).parent == source for image in images):
        raise UserError(
            f"{source} contains {len(images)} images but no folder per class: sort them into folders named after what "
            "they show, or list them in a CSV with the columns image,label"
        )
    kind = infer_format(str(source))
    return others - len(tables) if kind == "table" else others if kind == "folder" else 0


def check_classes(images: ReadImages, source: str | Path) -> None:
    """Reject single-class labels: there is nothing to distinguish the class from."""
    present = (images.drawn.values == PRESENT).any(axis=0)
    if present.sum() < 2:
        classes = images.drawn.classes
        name = next((name for name, shown in zip(classes, present, strict=True) if shown), classes[0])
        raise UserError(
            f"{source} has labels of one class only ({name!r}), so there is nothing to distinguish it from: "
            "add images of at least one other class"
        )


def elsewhere(val: str | Path) -> str:
    """The path of data to report on as a setting, where a bare name such as 'val' would be a split."""
    path = str(val)
    return os.path.join(".", path) if Path(path).is_dir() and os.sep not in path else path  # noqa: PTH118


def check_validation_classes(
    val: str | Path, source: str | Path, classes: tuple[str, ...], options: ReadOptions = ReadOptions()
) -> None:
    """Refuse a validation table with classes that no training image has: results could not be reported for them."""
    named = read_split(str(val), None, replace(options, skip_bad=True)).labels.classes
    if unknown := sorted(set(named) - set(classes)):
        names, them = ", ".join(map(repr, unknown)), "it" if len(unknown) == 1 else "them"
        raise UserError(
            f"--val {val} names {'the class' if len(unknown) == 1 else 'classes'} {names}, but {source} has no image "
            f"of {them}: add some, or remove {them} from the table"
        )


def settings_from_data(
    images: ReadImages, config: Config, device: torch.device, channels: tuple[int, int], settled: dict[str, Any]
) -> dict[str, Any]:
    """Method, input size, batch, epochs and holdout, from how many images there are, how large, and the backbone.

    `settled` has the settings that are fixed already. The method is the best one that we know of (docs/oracles.md).
    Pre-norm is used, which was best on photographs and drawings (docs/results.md). A narrow head needs a higher
    learning rate, and tolerates it.
    """
    fixed = settled["model"]
    count, classes = len(images.drawn), len(images.drawn.classes)
    size = input_size(images.train, 448 if device.type == "cuda" else 224)
    holdout = 0.0 if count < 30 else 0.2 if count < 200 else 0.1
    # A head much wider than its inputs learns no more: 512 for a ResNet-50, 256 for photographs, 128 for drawings.
    # A CPU takes 128 at most, no dropout (attention with it is three times as slow), fewer epochs: docs/backbones.md.
    slow = device.type == "cpu"
    most = min(128 if slow else 512, max(64, min(channels[1], 5 * channels[0] // 2)))
    width = config.model.width if "width" in fixed else next(w for w in (512, 256, 128, 64) if w <= most)
    norm = config.model.norm if "norm" in fixed else "pre"
    dropout = config.model.dropout if "dropout" in fixed or not slow else 0.0
    # A preset is the paper's method, and settings of Scob ask for it, unless there are some of `pairs` too, which can
    # have its contrast.
    asked_for = bool(settled.get("scob")) and not settled.get("pairs")
    scob_itself = config.preset != "default" or asked_for or config.scob.contrast in KINDS
    return {
        "method": "scob" if scob_itself else "pairs",
        "model": {"width": width, "feedforward": 4 * width, "norm": norm, "dropout": dropout},
        "data": {"size": size, "workers": min(4, max(1, (os.cpu_count() or 2) - 1))},
        "scob": {"capacity": fitting_capacity(classes, config.model.projection)},
        "train": {
            "lr_smt": float(f"{(0.1 if norm == 'pre' else 0.05) / width:.1g}"),  # 2e-4 at 512, the width of a ResNet-50
            "batch": 8 if count < 200 else 32 if count > 20000 else 16,
            "epochs": int(np.clip(round((5 if slow else 12) * (3000 / count) ** 0.5), 5, 30)),
            "holdout": holdout,
            "select": "last",  # the few labels of held-out images say too little to choose an epoch by
        },
    }


def input_size(split: Split, most: int) -> int:
    """The median side of the images, rounded up to a multiple of 32, between 64 and `most`."""
    sides = []
    for row in np.unique(np.linspace(0, len(split) - 1, SAMPLE).astype(int)):
        width, height = image_size(split, int(row))
        sides.append((width * height) ** 0.5)
    return int(np.clip(32 * np.ceil(np.median(sides) / 32), 64, most))


def classes_with(images: int, data: Data, present: NDArray[np.int64]) -> tuple[str, ...]:
    """The classes with so many images. `present` (L,) counts the images of each class."""
    return tuple(name for name, count in zip(data.drawn.classes, present, strict=True) if count == images)


def notes(data: Data, present: NDArray[np.int64], other_files: int) -> tuple[str, ...]:
    """What the user should know before training starts. `present` (L,) counts the images of each class."""
    sentences = [measured] if (measured := how_measured(data.evaluate)) else []
    if single := classes_with(1, data, present):
        sentences.append(f"classes with a single image: {len(single)} ({rows_word(single, 5)}); expect low accuracy")
    if empty := classes_with(0, data, present):
        sentences.append(f"classes without any image: {len(empty)} ({rows_word(empty, 5)})")
    if other_files:
        sentences.append(f"skipped files that are not images: {other_files}")
    if skipped := data.train.skipped:
        sentences.append(f"skipped {len(skipped)} images that cannot be read; the first: {cause(skipped[0])}")
    estimator_bytes = 12 * len(data.drawn) * len(data.drawn.classes)
    if estimator_bytes > 2 << 30:
        sentences.append(f"the label estimator will take {estimator_bytes / 2**30:.1f} GiB of memory")
    return tuple(sentences)
