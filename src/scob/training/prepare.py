"""From somebody's images to the settings of a run: no YAML, only what the images and labels themselves say."""

import os
import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from scob import methods
from scob.config import Config, merge, parse_overrides, resolve
from scob.data.find_images import images_below
from scob.data.images import cause
from scob.data.readers import infer_format, read_split
from scob.data.split import ReadOptions, Split
from scob.errors import UserError
from scob.labels import PRESENT, UNKNOWN
from scob.model.backbone import Backbone
from scob.model.load_backbone import load_backbone, save_backbone
from scob.model.network import Target, build_network
from scob.parallel import choose_device
from scob.training.build import Data, Experiment, load_data
from scob.training.find_model import find_model

DEFAULT_BACKBONE = "microsoft/resnet-50"
GUESSED_FACTOR = 1.5  # the field's figure for photographs tagged once: VOC shows 1.5 classes an image
CACHE_BYTES = 2 << 30
TREE_NUMBERS = 1 << 26
SAMPLE = 200  # images whose size is looked at


@dataclass
class Prepared:
    """A run ready to start, and what to tell the person who asked for it."""

    config: Config
    data: Data
    images: int
    classes: int
    skipped: tuple[str, ...] = ()
    other_files: int = 0
    k_reason: str = ""
    lonely: tuple[str, ...] = ()
    seconds: float | None = None
    notes: list[str] = field(default_factory=list)
    init: Path | None = None

    @property
    def steps(self) -> int:
        return -(-len(self.data.train) // self.config.train.batch) * self.config.train.epochs


def prepare(
    source: str | Path,
    val: str | Path | None = None,
    backbone: str = DEFAULT_BACKBONE,
    device: str = "auto",
    init: str | Path | None = None,
    out: Path | None = None,
    overrides: Iterable[str] = (),
    estimate: bool = True,
) -> Prepared:
    """Settings for a folder with one folder of images per class, or for a label table, and how long it will take.

    `val` is a table that lists every class of its images: it is only reported on. `init` continues from a model
    folder (its backbone is put into `out`, the run folder to be; `train` is given it, too). `overrides`
    (`train.epochs=3`) win over what is chosen here.
    """
    if init is not None and out is None:
        raise UserError("to continue from a model, prepare(init=...) needs the new run's folder: out=")
    out = None if out is None else Path(out)
    if out is not None and Path(source).is_dir() and out.resolve().is_relative_to(Path(source).resolve()):
        raise UserError(f"the run folder {out} would lie among the images of {source}: give another with --out")
    other_files = check_source(Path(source))
    if val is not None and not Path(val).is_file():
        raise UserError(f"--val {val} must be a table (CSV) that lists every class of its images: image,label")
    place = choose_device(device)
    chosen: dict[str, Any] = {
        "data": {"source": str(source), "skip_bad": True, "evaluate": str(val) if val is not None else ""},
        "labels": {"kind": "given"},
        "model": {"backbone": backbone},
        "train": {"device": device},
    }
    if init is not None and out is not None:
        chosen = merge(chosen, settings_of_model(Path(init), out))
    given = parse_overrides(overrides)
    first = resolve(merge(chosen, given), "on the command line")
    body = load_backbone(first.model.backbone, first.model.freeze)  # before the images are read: it may be missing
    data = load_data(first)
    check_classes(data, source)
    if val is not None:  # a row that is skipped among the training images is an error where results are reported
        named = read_split(str(val), None, ReadOptions()).labels.classes
        if strange := sorted(set(named) - set(data.drawn.classes)):
            raise UserError(
                f"--val {val} names {strange[0]!r}, of which {source} has no image: add some, or take the class out of "
                "the table"
            )
    built = merge(chosen, given)["model"]
    sized = merge(settings_from_data(data, first, place, body.channels, built), chosen)
    config = resolve(merge(sized, given), "on the command line")
    k, why = expected_positives(data)
    if not config.labels.k:
        config.labels.k = round(k, 2)
    else:
        why = "as you asked"
    data = load_data(config)
    present = (data.drawn.values == PRESENT).sum(axis=0)
    made = Prepared(
        config, data, len(data.drawn), len(data.drawn.classes), data.train.skipped, other_files, why,
        tuple(name for name, count in zip(data.drawn.classes, present, strict=True) if count == 1),
        init=None if init is None else Path(init),
    )  # fmt: skip
    remark(made, present)
    if estimate:
        made.seconds = estimate_seconds(made, body, place)
    return made


def check_source(source: Path) -> int:
    """Refuse what cannot be learned from with a sentence; returns how many files are no images."""
    if source.is_file():
        return 0
    if not source.exists():
        raise UserError(f"there is nothing at {source}: give a folder with one folder of images per class, or a CSV")
    images, others = images_below(source, empty=True)
    tables = [p for p in source.iterdir() if p.suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson")]
    if not images:
        beside = f" (it holds {others} files of other kinds)" if others else ""
        raise UserError(f"the folder {source} holds no image{beside}")
    if not tables and all(Path(image).parent == source for image in images):
        raise UserError(
            f"{source} holds {len(images)} images but no folder per class: sort them into folders named after what "
            "they show, or list them in a CSV with the columns image,label"
        )
    return others - (len(tables) if infer_format(str(source)) == "table" else 0)


def check_classes(data: Data, source: str | Path) -> None:
    """One class cannot be told from nothing."""
    present = (data.drawn.values == PRESENT).any(axis=0)
    if present.sum() < 2:
        name = next((n for n, p in zip(data.drawn.classes, present, strict=True) if p), data.drawn.classes[0])
        raise UserError(
            f"{source} has labels of one class only ({name!r}): there is nothing to tell it from; "
            "add images of at least one other class"
        )


def settings_from_data(
    data: Data, config: Config, device: torch.device, channels: tuple[int, int], built: dict[str, Any]
) -> dict[str, Any]:
    """Input size, batch, epochs, holdout and memory, from how many images there are, how large, and the backbone.

    `built` names what is settled of the network already. Norms come before each part, which was best on photographs
    and on drawings (docs/results.md); a narrow head bears, and needs, a higher rate.
    """
    count, classes = len(data.drawn), len(data.drawn.classes)
    size = input_size(data.train, 448 if device.type == "cuda" else 224)
    aside = 0.0 if count < 30 else 0.2 if count < 200 else 0.1
    cells = (size // 16) ** 2 * 1024 + (size // 32) ** 2 * 2048
    fits = 2 * 4 * cells * count < CACHE_BYTES
    # A head wider than what it reads learns nothing more and takes a CPU hours: 512 for a ResNet-50, 128 for drawings.
    fitting = next(w for w in (512, 256, 128, 64) if w <= max(64, channels[1]))
    width = config.model.width if "width" in built else fitting
    norm = config.model.norm if "norm" in built or config.preset == "paper" else "pre"
    return {
        "model": {"width": width, "feedforward": 4 * width, "norm": norm},
        "data": {"size": size, "workers": min(4, max(1, (os.cpu_count() or 2) - 1))},
        # The tree of a class shrinks where there are thousands of them.
        "scob": {"capacity": max(4, min(80, TREE_NUMBERS // (classes * config.model.projection)))},
        "train": {
            "lr_smt": float(f"{(0.1 if norm == 'pre' else 0.05) / width:.1g}"),  # 2e-4 at 512, the width of a ResNet-50
            "batch": 8 if count < 200 else 32 if count > 20000 else 16,
            "epochs": int(np.clip(round(12 * (3000 / count) ** 0.5), 5, 30)),
            "holdout": aside,
            "select": "holdout" if aside else "last",
            "feature_cache": ("device" if device.type == "cuda" else "host") if fits else "none",
        },
    }


def input_size(split: Split, most: int) -> int:
    """The median side of the images, rounded up to a multiple of 32, between 64 and `most`."""
    sides = []
    for row in np.unique(np.linspace(0, len(split) - 1, SAMPLE).astype(int)):
        path = split.images.where(int(row)).partition(" (")[0]
        try:
            with Image.open(path) as image:
                sides.append((image.width * image.height) ** 0.5)
        except OSError:  # a path with ' (' in it, or images that are no files
            height, width = split.images.load(int(row)).shape[:2]
            sides.append((width * height) ** 0.5)
    return int(np.clip(32 * np.ceil(np.median(sides) / 32), 64, most))


def expected_positives(data: Data) -> tuple[float, str]:
    """k of Eq. 11, and in words where it comes from."""
    labels = data.drawn.values
    most = float(labels.shape[1])
    if data.evaluate is not None:
        seen = (data.evaluate.labels.values == PRESENT).sum(axis=1)
        return float(np.clip(seen.mean(), 1.0, most)), "counted in the validation labels"
    seen = (labels == PRESENT).sum(axis=1)
    if not (labels == UNKNOWN).any():
        return float(np.clip(seen.mean(), 1.0, most)), "counted in the labels, which are complete"
    mean = float(seen[seen > 0].mean())
    return float(np.clip(GUESSED_FACTOR * mean, 1.0, most)), f"a guess: {GUESSED_FACTOR} for each label given"


def remark(made: Prepared, present: np.ndarray[Any, Any]) -> None:
    """What a person should know before it starts."""
    if made.lonely:
        shown = ", ".join(made.lonely[:5]) + (f" and {len(made.lonely) - 5} more" if len(made.lonely) > 5 else "")
        made.notes.append(f"classes with a single image: {len(made.lonely)} ({shown}); expect little of them")
    empty = int((present == 0).sum())
    if empty:
        made.notes.append(f"classes with no image at all: {empty}")
    if made.other_files:
        made.notes.append(f"files that are no images, skipped: {made.other_files}")
    if made.skipped:
        first = cause(made.skipped[0])
        made.notes.append(f"images that cannot be read, skipped: {len(made.skipped)}, the first: {first}")
    rows = 12 * made.images * made.classes
    if rows > 2 << 30:
        made.notes.append(f"the label estimator will take {rows / 2**30:.1f} GiB of memory")


def estimate_seconds(made: Prepared, backbone: Backbone, device: torch.device) -> float:
    """Seconds the run will take, from the quickest of three steps timed on this device."""
    config = made.config
    backbone = backbone.to(device)
    network = build_network(backbone, config.model, made.classes, config.data.size).to(device)
    images = torch.zeros(config.train.batch, 3, config.data.size, config.data.size, device=device)
    views = 1 if config.train.feature_cache != "none" else 3

    def step() -> None:
        with torch.no_grad():
            for _ in range(views):
                features = backbone(images)
        for _ in range(2):  # the class step and the contrastive step
            network.classify(features).sum().backward()  # type: ignore[no-untyped-call]
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    step()
    timed = []
    for _ in range(3):
        began = time.perf_counter()
        step()
        timed.append(time.perf_counter() - began)
    return min(timed) * made.steps * 1.2  # a fifth for evaluation and reading


# Continuing from a model.


def settings_of_model(model: Path, out: Path) -> dict[str, Any]:
    """The settings a model was built with; its backbone becomes a folder of the new run."""
    from scob.training.model_folder import load_network

    if model.suffix == ".onnx":
        raise UserError(f"{model} is an ONNX file, which cannot be trained further: give its run or model folder")
    network, card = load_network(find_model(model).path)
    folder = out / "init-backbone"
    save_backbone(network.backbone, folder, card.mean, card.std)
    # The statistics of BatchNorm are the model's already.
    built = {**card.model, "backbone": str(folder), "calibrate_bn": False}
    return {"data": {"size": card.size}, "model": built, "method": card.method}


def continuing(config: Config, model: Path, out: Path, words: Iterable[str] = ()) -> Config:
    """The settings of a run in `out` that continues from a model: built as it was, but for what `words` say."""
    tree = merge(merge(config.model_dump(mode="json"), settings_of_model(model, out)), parse_overrides(words))
    return resolve(tree, "on the command line", methods.names())


def initialise(experiment: Experiment, model: str | Path) -> dict[str, list[str]]:
    """Start an experiment from a model folder: its head, and its classifier's rows for the classes both know.

    Returns the classes that were kept, those that are new, and those that were left behind.
    """
    from scob.training.model_folder import load_network

    network, card = load_network(find_model(model).path, experiment.processes.device)
    mine = experiment.data.observed.classes
    asked = experiment.config.model.model_dump(mode="json")
    for key in ("head", "norm", "position"):  # weights of one would fit another, and mean something else there
        if card.model.get(key, asked[key]) != asked[key]:
            raise UserError(
                f"the model in {model} was built with model.{key}={card.model[key]}, these settings say {asked[key]}: "
                "leave that to --init (in Python to prepare(init=...) or continuing)"
            )
    try:
        experiment.network.head.load_state_dict(network.head.state_dict())
    except RuntimeError as error:
        raise UserError(
            f"the model in {model} has another head than these settings build: {str(error).splitlines()[-1].strip()}"
        ) from error
    old = {name: row for row, name in enumerate(card.classes)}
    kept = [name for name in mine if name in old]
    rows = [mine.index(name) for name in kept], [old[name] for name in kept]
    before = network.classifier.state_dict()
    after = experiment.network.classifier.state_dict()
    for key, value in after.items():
        if key in before and value.shape[1:] == before[key].shape[1:]:
            value[rows[0]] = before[key][rows[1]]
    experiment.network.classifier.load_state_dict(after)
    target = getattr(experiment.method, "target", None)
    if isinstance(target, Target):  # it starts as an exact copy (Eq. 13)
        target.head.load_state_dict(network.head.state_dict())
    return {
        "kept": kept,
        "new": [name for name in mine if name not in old],
        "left": [name for name in card.classes if name not in set(mine)],
    }


def next_commands(run: Path) -> tuple[str, str]:
    """What a person does after training."""
    named = shlex.quote(str(run))  # to be copied into a shell
    return f"scob predict {named} IMAGES", f"scob recover {named}"
