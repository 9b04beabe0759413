"""Everything a run needs, built from its settings: images, observed labels, network, method."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob import methods
from scob.algorithm.masks import MaskBank
from scob.algorithm.sampling import Plan
from scob.config import Config
from scob.data.feed import Feed
from scob.data.readers import open_complete, open_split, read_split, splits_of
from scob.data.split import ReadOptions, Split
from scob.data.views import Views
from scob.draws import mix, seed_key
from scob.errors import UserError
from scob.labels import PRESENT, Labels
from scob.model.backbone import Backbone
from scob.model.features import FeatureSource, resolve_precision
from scob.model.heads import Grids
from scob.model.load_backbone import load_backbone, preprocessing
from scob.model.network import Network, build_network
from scob.model.row_tables import RowPlace
from scob.parallel import Processes
from scob.training.optimise import Optimiser
from scob.training.scoring import row_batches

CALIBRATION_IMAGES = 4096
RESIDENT_SHARE = 0.25
Report = Callable[[str, dict[str, object]], None]


def silent(event: str, facts: dict[str, object]) -> None:
    """A report nobody reads."""


@dataclass
class Data:
    """The images of a run: those to learn from, those held out to choose the epoch, those reported."""

    train: Split
    holdout: Split | None
    evaluate: Split | None
    observed: Labels  # of `train`, what the method may see
    holdout_observed: Labels | None
    drawn: Labels  # observed labels of train and holdout together: the file of the run folder
    k: float


@dataclass
class Experiment:
    """A run ready to start."""

    config: Config
    data: Data
    network: Network
    method: methods.Method
    source: FeatureSource
    optimiser: Optimiser
    plan: Plan
    feeds: dict[str, Feed]
    sources: dict[str, FeatureSource]
    processes: Processes
    mean: tuple[float, ...]
    std: tuple[float, ...]
    grids: Grids


def observe(full: Labels, config: Config, stored: Labels | None) -> Labels:
    """What of the labels is observed: drawn anew, or `stored` in `labels.file`."""
    s = config.labels
    if stored is not None:
        if stored.classes != full.classes:
            raise UserError(f"{s.file} has other classes than {config.data.source}: draw the labels again")
        place = {name: row for row, name in enumerate(stored.images)}
        missing = next((name for name in full.images if name not in place), None)
        if missing is not None:
            raise UserError(
                f"{s.file} does not know the image {missing!r} of {config.data.source}: draw the labels again, or "
                "leave out what it does not know with data.skip_bad=true"
            )
        return stored.select([place[name] for name in full.images])
    if s.kind == "single":
        return full.single_positive(s.seed)
    if s.kind == "partial":
        return full.partial(s.fraction, s.seed)
    return full


def holdout_rows(observed: Labels, share: float, seed: int) -> NDArray[np.bool_]:
    """Which images are set aside: drawn by image id, never one of a class's last two positives."""
    present = observed.values == PRESENT
    rare = present.sum(axis=0) < 3
    eligible = ~(present & rare).any(axis=1)
    draw = np.where(eligible, mix(observed.keys, seed_key(seed, "holdout")), np.uint64(2**64 - 1))
    aside = np.zeros(len(observed), dtype=bool)
    aside[np.argsort(draw, kind="stable")[: min(int(share * len(observed)), int(eligible.sum()))]] = True
    return aside


def without_latecomers(split: Split, stored: Labels, file: str) -> Split:
    """The split less the images that a label file does not know, which are added to `skipped`."""
    known = set(stored.images)
    rows = [row for row, name in enumerate(split.labels.images) if name in known]
    if len(rows) in (0, len(split)):  # a file that knows none of them is another's
        return split
    late = tuple(f"{name}: {file} does not know it" for name in split.labels.images if name not in known)
    return replace(split.select(rows), skipped=(*split.skipped, *late))


def how_to_read(config: Config) -> tuple[ReadOptions, tuple[str, ...], str | None]:
    """Options, the names of all splits, and the one to train on (None where there is but one, whatever its name)."""
    d = config.data
    names = splits_of(d.source, d.format)
    chosen = d.train if d.train in names or len(names) > 1 else None
    return ReadOptions(difficult=d.difficult, skip_bad=d.skip_bad), names, chosen


def listed_images(config: Config) -> Split:
    """The images that a run was given, as its source lists them: none is decoded, so some may be broken."""
    options, _, chosen = how_to_read(config)
    return read_split(config.data.source, chosen, options, config.data.format)


def load_data(config: Config, latecomers: bool = True) -> Data:
    """Read the splits, observe the labels, set the holdout aside.

    Images that `labels.file` does not know are an error; left out with `data.skip_bad`, or if no `latecomers` count.
    """
    d = config.data
    options, names, train_name = how_to_read(config)
    whole = open_split(d.source, train_name, options, d.format)
    stored = Labels.load(Path(config.labels.file)) if config.labels.file else None
    if stored is not None and (d.skip_bad or not latecomers):
        whole = without_latecomers(whole, stored, config.labels.file)
    if d.limit:
        whole = whole.select(np.arange(min(d.limit, len(whole))))
    drawn = observe(whole.labels, config, stored)
    given = whole.labels if methods.find(config.method).labels == "full" else drawn
    if not (given.values == PRESENT).any():
        raise UserError(
            f"{d.source}: no image of the split {whole.name!r} has a positive label; there is nothing to learn from"
        )
    train, holdout, held_observed = whole, None, None
    observed = given
    if config.train.holdout:
        aside = holdout_rows(drawn, config.train.holdout, config.labels.seed)
        if aside.any() and not aside.all():
            train, holdout = whole.select(np.flatnonzero(~aside)), whole.select(np.flatnonzero(aside))
            observed, held_observed = (
                given.select(np.flatnonzero(~aside)),
                drawn.select(np.flatnonzero(aside)),
            )
    evaluate = None
    if d.evaluate and d.evaluate in names and d.evaluate != whole.name:
        evaluate = open_split(d.source, d.evaluate, replace(options, classes=whole.labels.classes), d.format)
    elif d.evaluate and Path(d.evaluate).is_file():
        evaluate = open_complete(d.evaluate, None, replace(options, classes=whole.labels.classes))
    return Data(train, holdout, evaluate, observed, held_observed, drawn, expected_k(config, whole, drawn))


def expected_k(config: Config, split: Split, observed: Labels) -> float:
    """k of Eq. 11: the setting, else the data set's customary value, else a guess from the labels that are there."""
    if config.labels.k:
        return config.labels.k
    if split.expected_positives:
        return split.expected_positives
    seen = (observed.values == PRESENT).sum(axis=1)
    return float(max(1.0, seen[seen > 0].mean() if seen.any() else 1.0) * 1.5)


def true_masks(split: Split, observed: Labels, grids: Grids) -> tuple[MaskBank, int] | None:
    """Segmentation of each image's observed label at both grids, by max pooling; and how many images have it.

    Void pixels count as background. An image with several observed labels shows their union.
    """
    if split.masks is None:
        return None
    bank, found = MaskBank(len(split), grids), 0
    for row in range(len(split)):
        objects = split.masks.load(row)
        wanted = [int(c) for c in np.flatnonzero(observed.values[row] == PRESENT)]
        shown = [objects.present[c] for c in wanted if c in objects.present] if objects is not None else []
        if not shown:
            continue
        found += 1
        whole = torch.from_numpy(np.any(shown, axis=0))[None, None].float()
        stages = [torch.nn.functional.adaptive_max_pool2d(whole, g)[0] > 0 for g in grids]
        bank.store(torch.tensor([row]), (stages[0], stages[1]), torch.tensor([False]))
    return bank, found


@dataclass
class Sight:
    """What a run looks through: the backbone, calibrated, with its images and, where they are kept, its features.

    Runs on the same images with the same frozen backbone, size and seed may share it: they differ in method only.
    """

    backbone: Backbone
    feeds: dict[str, Feed]
    sources: dict[str, FeatureSource]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    grids: Grids


def look(
    config: Config,
    data: Data,
    processes: Processes,
    restored: Mapping[str, Tensor] | None = None,
    folder: Path | None = None,
    report: Report = silent,
) -> Sight:
    """Load and calibrate the backbone, open the images, keep features if asked to.

    `restored` (a checkpoint) saves the BatchNorm calibration its pass.
    """
    device, t = processes.device, config.train
    precision = resolve_precision(device, t.precision)
    mean, std = preprocessing(config.model.backbone)
    views = Views(config.data.size, mean, std, t.seed)
    backbone = load_backbone(config.model.backbone, config.model.freeze).to(device)
    backbone = backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    splits = {"train": data.train, "holdout": data.holdout, "evaluate": data.evaluate}
    feeds = {n: make_feed(split, config, device) for n, split in splits.items() if split is not None}
    sources = {name: FeatureSource(backbone, views, precision) for name in splits}
    if config.model.calibrate_bn:
        calibrate(sources["train"], feeds["train"], restored, len(data.train), report)
        processes.copy_first(backbone.state_dict().values())
    grids = backbone.grids(config.data.size)
    if precision == "fp64":
        backbone.double()
    sources["train"].make_fast()
    for source in sources.values():
        source.fast = sources["train"].fast
    if t.feature_cache != "none":
        for name, feed in feeds.items():
            report("caching", {"split": name, "images": len(feed)})
            place = folder / "features" / name if folder is not None else None
            sources[name].fill(feed.iterate(row_batches(len(feed), 64)), len(feed), t.feature_cache, place)
    return Sight(backbone, feeds, sources, mean, std, grids)


def build(
    config: Config,
    data: Data,
    processes: Processes,
    restored: Mapping[str, Tensor] | None = None,
    folder: Path | None = None,
    report: Report = silent,
    sight: Sight | None = None,
) -> Experiment:
    """Network, method and optimiser of a run, on a `sight` of its own or one that it shares."""
    kind = methods.find(config.method)
    config = kind.adjust(config)
    device, t = processes.device, config.train
    if device.type == "cuda":
        if t.deterministic:  # cuBLAS repeats its bits only with a workspace of a fixed size
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not t.deterministic
        torch.backends.cudnn.benchmark = not t.deterministic
        torch.use_deterministic_algorithms(t.deterministic)
    if sight is None or not sight.backbone.frozen:
        sight = look(config, data, processes, restored, folder, report)
    torch.manual_seed(seed_key(t.seed, "weights"))
    network = assemble(config, sight.backbone, data, sight.grids).to(device)
    pad = processes.count > 1 or t.compile
    plan = Plan(data.observed, t.batch, t.seed, processes.rank, processes.count, pad)
    problem = make_problem(config, data, sight.grids, plan, processes, report, folder)
    settings = methods.settings_of(config, config.method)
    method = kind(network, problem, sight.sources["train"], config, settings).to(device)
    if sight.sources["train"].precision == "fp64":
        method.double()
    for remark in method.remarks():
        report("remark", {"message": remark})
    optimiser = Optimiser(method.groups(), t, plan.steps * t.epochs, processes, device)
    method.optimiser = optimiser
    return Experiment(
        config, data, network, method, sight.sources["train"], optimiser, plan, sight.feeds, sight.sources, processes,
        sight.mean, sight.std, sight.grids,
    )  # fmt: skip


def assemble(config: Config, backbone: Backbone, data: Data, grids: Grids) -> Network:
    """The common network, or the method's own head on the same backbone."""
    classes = len(data.observed.classes)
    own = methods.find(config.method).build_head(
        backbone.channels, grids, config, {"classes": data.observed.classes, "observed": data.observed}
    )
    if own is not None:
        return Network(backbone, own, classes)
    return build_network(backbone, config.model, classes, config.data.size, grids)


def make_problem(
    config: Config,
    data: Data,
    grids: Grids,
    plan: Plan,
    processes: Processes,
    report: Report,
    folder: Path | None = None,
) -> methods.Problem:
    """What the method may know, with a last row for padding."""
    values = torch.from_numpy(np.concatenate((data.observed.values, np.zeros_like(data.observed.values[:1]))))
    keys = torch.from_numpy(np.append(data.observed.keys, 0))
    bank = None
    if config.method == "scob" and config.scob.guidance == "gt-mask":
        made = true_masks(data.train, data.observed, grids)
        if made is not None:
            bank = made[0].to(processes.device)
            report("true masks", {"with segmentation": made[1], "images": len(data.train)})
    return methods.Problem(
        data.observed.classes, values.to(processes.device), keys.to(processes.device), data.k, grids,
        config.train.seed, config.train.epochs, plan.steps, processes, bank,
        RowPlace(config.train.rows, folder / f"rows-{processes.rank}" if folder is not None else None),
    )  # fmt: skip


def make_feed(split: Split, config: Config, device: torch.device) -> Feed:
    """Images of a split: kept on a GPU that has room for them, else from the cache or the decoding workers."""
    size = config.data.size
    room = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    resident = len(split) * 3 * size * size < RESIDENT_SHARE * room
    cache = Path(config.data.cache) if config.data.cache else None
    return Feed(split, size, device, config.data.workers, cache, resident, config.data.skip_bad)


def calibrate(
    source: FeatureSource, feed: Feed, restored: Mapping[str, Tensor] | None, count: int, report: Report
) -> None:
    """Re-estimate BatchNorm on clean, unflipped training images, or put a checkpoint's statistics back."""
    if restored is not None:
        prefix = "method.network.backbone."
        buffers = {k[len(prefix) :]: v for k, v in restored.items() if k.startswith(prefix)}
        source.backbone.load_state_dict(buffers, strict=False)
        return
    report("calibrating", {"images": min(count, CALIBRATION_IMAGES)})
    batches = feed.iterate(row_batches(min(count, CALIBRATION_IMAGES), 32))
    source.backbone.calibrate(source.views.normalise(b).contiguous(memory_format=torch.channels_last) for b in batches)
