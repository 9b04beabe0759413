"""What goes into a run's steps: the calibrated backbone, the images of each split and, if cached, their features."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from scob.config import Config
from scob.data.feed import Feed, FeedOptions
from scob.data.split import Split
from scob.data.views import Views
from scob.model.backbone import Backbone
from scob.model.features import FeatureSource, cache_features, fast_backbone, resolve_precision
from scob.model.heads import Grids
from scob.model.load_backbone import load_backbone
from scob.model.preprocessing import preprocessing
from scob.model.row_tables import RowStorage
from scob.parallel import Processes
from scob.training.checkpoint import backbone_state
from scob.training.events import CachingFeatures, Calibrating, Listener, progress_of, reported, silent
from scob.training.run_data import Data
from scob.training.scoring import row_batches

CALIBRATION_IMAGES = 4096
RESIDENT_SHARE = 0.25


@dataclass(frozen=True)
class Inputs:
    """Backbone, images and features of a run, by split: train, holdout, evaluate.

    Runs with the same images, frozen backbone, size and seed may share them, even with different methods.
    """

    backbone: Backbone
    feeds: dict[str, Feed]
    sources: dict[str, FeatureSource]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    grids: Grids

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
    """Load and calibrate the backbone, open the images, cache features if asked to.

    With `restored`, the tensors of a checkpoint, BatchNorm need not be calibrated again.
    """
    device, t = processes.device, config.train
    precision = resolve_precision(device, t.precision)
    backbone = load_backbone(config.model.backbone, config.model.freeze).to(device)
    mean, std = preprocessing(config.model.backbone)
    views = Views(config.data.size, mean, std, t.seed)
    backbone = backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    splits = {"train": data.train, "holdout": data.holdout, "evaluate": data.evaluate}
    feeds = {name: make_feed(split, config, device, listen) for name, split in splits.items() if split is not None}
    if config.model.calibrate_bn and not backbone.keeps_statistics:
        if restored is not None:
            backbone.load_state_dict(backbone_state(restored), strict=False)
        else:
            calibrate(backbone, views, feeds["train"], listen)
        processes.copy_first(backbone.state_dict().values())
    grids = backbone.grids(config.data.size)
    if precision == "fp64":
        backbone.double()
    fast = fast_backbone(backbone, precision)
    sources = {name: FeatureSource(backbone, views, precision, fast) for name in splits}
    if t.feature_cache != "none":
        for name, feed in feeds.items():
            listen(CachingFeatures(name, len(feed)))
            cache_folder = folder / "features" / name if folder is not None else None
            storage = RowStorage(t.feature_cache, cache_folder, "train.feature_cache")
            batches = reported(
                feed.iterate(row_batches(len(feed), 64)), f"computing features ({name})", len(feed), listen
            )
            cache = cache_features(sources[name], batches, len(feed), storage)
            sources[name] = FeatureSource(backbone, views, precision, fast, cache)
    return Inputs(backbone, feeds, sources, mean, std, grids)


def make_feed(split: Split, config: Config, device: torch.device, listen: Listener = silent) -> Feed:
    """Images of a split: kept on the GPU if it has room for them, else from the cache or the decoding workers."""
    size = config.data.size
    room = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    resident = len(split) * 3 * size * size < RESIDENT_SHARE * room
    cache = Path(config.data.cache) if config.data.cache else None
    options = FeedOptions(config.data.workers, cache, resident, config.data.skip_bad)
    return Feed(split, size, device, options, progress_of(f"loading images ({split.name})", listen))


def calibrate(backbone: Backbone, views: Views, feed: Feed, listen: Listener) -> None:
    """Re-estimate BatchNorm statistics on clean, unflipped training images."""
    count = min(len(feed), CALIBRATION_IMAGES)
    listen(Calibrating(count))
    batches = reported(feed.iterate(row_batches(count, 32)), "re-estimating BatchNorm", count, listen)
    backbone.calibrate(views.normalise(b).contiguous(memory_format=torch.channels_last) for b in batches)
