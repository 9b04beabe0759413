"""What goes into a run's steps: the calibrated backbone, the images of each split and, if cached, their features."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from scob.config import Config
from scob.data.feed import Feed, FeedOptions
from scob.data.split import Split
from scob.data.views import Views
from scob.errors import UserError
from scob.model.backbone import Backbone
from scob.model.features import FeatureSource, cache_features, fast_backbone, resolve_precision
from scob.model.heads import Grids
from scob.model.load_backbone import load_backbone
from scob.model.preprocessing import preprocessing
from scob.model.row_tables import RowStorage
from scob.parallel import Processes
from scob.training.checkpoint import backbone_state
from scob.training.events import CachingFeatures, Calibrating, Listener, Note, progress_of, reported, silent
from scob.training.execution import WHERE, agree_on, plan_inputs, read_execution
from scob.training.host_memory import keep_freed_memory
from scob.training.memory_plan import MOST_RESIDENT, step_down
from scob.training.out_of_memory import is_out_of_memory, release
from scob.training.run_data import Data
from scob.training.scoring import row_batches

CALIBRATION_IMAGES = 4096


@dataclass(frozen=True)
class Inputs:
    """Backbone, images and features of a run, by split: train, holdout, evaluate.

    Runs with the same images, frozen backbone, size and seed may share them, even with different methods. `features`
    says where features are cached (device, host, disk or none), and `reason` why.
    """

    backbone: Backbone
    feeds: dict[str, Feed]
    sources: dict[str, FeatureSource]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    grids: Grids
    features: str = "none"
    reason: str = ""

    def close(self) -> None:
        """End the decoding workers."""
        for feed in self.feeds.values():
            feed.close()


def open_inputs(
    config: Config,
    data: Data,
    processes: Processes,
    restored: Mapping[str, Tensor] | None = None,
    folder: Path | None = None,
    listen: Listener = silent,
) -> Inputs:
    """Load and calibrate the backbone, open the images, cache features if there is room for them.

    With `restored`, the tensors of a checkpoint, BatchNorm need not be calibrated again.
    """
    device, t = processes.device, config.train
    if device.type == "cpu":
        keep_freed_memory()
    precision = resolve_precision(device, t.precision)
    backbone = load_backbone(config.model.backbone, config.model.freeze).to(device)
    mean, std = preprocessing(config.model.backbone)
    views = Views(config.data.size, mean, std, t.seed)
    backbone = backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    grids = backbone.grids(config.data.size)
    images = {name: len(split) for name, split in data.splits.items()}
    plan, reason = plan_inputs(config, images, processes, (backbone, grids), read_execution(folder))
    feeds = {}
    for name, split in data.splits.items():
        kept = plan.resident if name == "train" else plan.features == "none" and fits_beside(split, config, device)
        feeds[name] = make_feed(split, config, device, kept, listen)
    if config.model.calibrate_bn and not backbone.keeps_statistics:
        if restored is not None:
            backbone.load_state_dict(backbone_state(restored), strict=False)
        else:
            calibrate(backbone, views, feeds["train"], listen)
        processes.copy_first(backbone.state_dict().values())
    if precision == "fp64":
        backbone.double()
    fast = fast_backbone(backbone, precision)
    plain = {name: FeatureSource(backbone, views, precision, fast) for name in feeds}
    forced = t.feature_cache != "auto"
    features = plan.features
    while (sources := cached_sources(plain, feeds, features, folder, processes, listen)) is None:
        lower = step_down(features)
        if forced:
            raise UserError(does_not_fit(features, device))
        reason = f"features are {WHERE[lower]} ({does_not_fit(features, device)})"
        features = lower
    return Inputs(backbone, feeds, sources, mean, std, grids, features, reason)


def does_not_fit(features: str, device: torch.device) -> str:
    """The sentence about a cache for which memory did not suffice."""
    where = "the GPU" if features == "device" and device.type == "cuda" else "memory"
    lower = "host" if where == "the GPU" else "none"
    return f"the cached features do not fit into {where}: train.feature_cache={lower} or auto needs less"


def cached_sources(
    plain: Mapping[str, FeatureSource],
    feeds: Mapping[str, Feed],
    place: str,
    folder: Path | None,
    processes: Processes,
    listen: Listener,
) -> dict[str, FeatureSource] | None:
    """Sources that read features from a cache in that place; None if memory does not suffice for it."""
    sources = dict(plain)
    if place == "none":
        return sources
    short = False
    try:
        for name, feed in feeds.items():
            listen(CachingFeatures(name, len(feed)))
            storage = RowStorage(
                place, folder / "features" / name if folder is not None else None, "train.feature_cache"
            )
            one = plain[name]
            batches = feed.iterate(row_batches(len(feed), 64))
            counted = reported(batches, f"computing features ({name})", len(feed), listen)
            cache = cache_features(one, counted, len(feed), storage)
            sources[name] = FeatureSource(one.backbone, one.views, one.precision, one.fast, cache)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        short = True
    if agree_on(int(short), processes):
        sources.clear()
        release()
        return None
    return sources


def fits_beside(split: Split, config: Config, device: torch.device) -> bool:
    """Whether images that are only evaluated fit into a small part of what is free on the GPU."""
    room = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return len(split) * 3 * config.data.size**2 < MOST_RESIDENT * room


def make_feed(split: Split, config: Config, device: torch.device, resident: bool, listen: Listener = silent) -> Feed:
    """Images of a split: kept on the GPU if they are to be `resident`, else from the cache or the decoding workers."""
    cache = Path(config.data.cache) if config.data.cache else None
    options = FeedOptions(config.data.workers, cache, resident, config.data.skip_bad)
    progress = progress_of(f"loading images ({split.name})", listen)
    try:
        return Feed(split, config.data.size, device, options, progress)
    except (RuntimeError, MemoryError) as error:
        if not resident or not is_out_of_memory(error):
            raise
    release()
    listen(Note("the images do not fit on the GPU, so they are sent to it batch by batch"))
    return Feed(split, config.data.size, device, replace(options, resident=False), progress)


def calibrate(backbone: Backbone, views: Views, feed: Feed, listen: Listener) -> None:
    """Re-estimate BatchNorm statistics on clean, unflipped training images."""
    count = min(len(feed), CALIBRATION_IMAGES)
    listen(Calibrating(count))
    batches = reported(feed.iterate(row_batches(count, 32)), "re-estimating BatchNorm", count, listen)
    backbone.calibrate(views.normalise(b).contiguous(memory_format=torch.channels_last) for b in batches)
