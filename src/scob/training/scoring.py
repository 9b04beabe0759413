"""Scores of many images: in batches, shared among processes, each image exactly once."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.data.feed import Feed
from scob.data.views import Views
from scob.model.backbone import Features
from scob.model.features import FeatureSource, autocast, fast_backbone, resolve_precision
from scob.model.network import Network
from scob.parallel import Processes
from scob.training.model_folder import ModelCard
from scob.training.out_of_memory import FittingBatch


def row_batches(count: int, batch: int, rank: int = 0, processes: int = 1) -> Iterator[NDArray[np.int64]]:
    """The rows 0..count-1 in batches; with several processes, the contiguous share of one of them."""
    share = -(-count // processes)
    rows = np.arange(rank * share, min(count, (rank + 1) * share), dtype=np.int64)
    for start in range(0, len(rows), batch):
        yield rows[start : start + batch]


def model_source(network: Network, card: ModelCard, device: torch.device) -> FeatureSource:
    """Features of the clean views that a model folder was made for."""
    views, precision = Views(card.size, card.mean, card.std), resolve_precision(device, "auto")
    fast = fast_backbone(network.backbone, precision) if device.type == "cpu" else None
    return FeatureSource(network.backbone, views, precision, fast)


@torch.no_grad()
def score_images(
    network: Network,
    source: FeatureSource,
    feed: Feed,
    batch: int | FittingBatch = 64,
    mirror: bool = False,
    processes: Processes | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Probabilities (N, L) float32 of a feed's images, on the CPU and in their order.

    `mirror` averages the logits of each image and its mirror image.
    """
    was_training = network.training
    network.eval()
    logits = over_images(network.classify, network.classes, source, feed, batch, mirror, processes, progress)
    network.train(was_training)
    return logits.sigmoid()


@torch.no_grad()
def over_images(
    compute: Callable[[Features], Tensor],
    width: int,
    source: FeatureSource,
    feed: Feed,
    batch: int | FittingBatch = 64,
    mirror: bool = False,
    processes: Processes | None = None,
    progress: Callable[[int], None] | None = None,
    chosen: NDArray[np.int64] | None = None,
) -> Tensor:
    """What is computed from the features of a feed's images, (N, width) float32, on the CPU and in their order.

    Of all images, or of the `chosen` rows (N,). Features come from the source's cache if it has one, else from the
    pixels. `mirror` averages over each image and its mirror image. A batch that does not fit into memory is computed in
    halves.
    """
    fitting = batch if isinstance(batch, FittingBatch) else FittingBatch(batch)
    processes = processes or Processes()
    parts: list[Tensor] = []
    count = len(feed) if chosen is None else len(chosen)
    batches = list(row_batches(count, fitting.size, processes.rank, processes.count))
    batches = batches if chosen is None else [chosen[rows] for rows in batches]
    images = feed.iterate(batches) if source.cache is None else None
    for rows in batches:
        pixels = next(images) if images is not None else None
        device = source.cache.device if source.cache is not None else pixels.device  # type: ignore[union-attr]
        on_device = torch.from_numpy(rows).to(device)

        def computed(part: slice, rows: Tensor = on_device, pixels: Tensor | None = pixels) -> Tensor:
            values: Tensor | None = None
            some = None if pixels is None else pixels[part]
            for turned in (False, True) if mirror else (False,):
                features = source.clean(rows[part], some, torch.full_like(rows[part], turned, dtype=torch.bool))
                with autocast(rows.device, source.precision):
                    answer = compute(features).float()
                values = answer if values is None else (values + answer) / 2
            assert values is not None
            return values

        parts.append(fitting.compute(len(rows), computed))
        if progress is not None:
            progress(len(rows))
    if processes.count == 1:  # on the device there may be no room for all of them twice
        parts = [part.cpu() for part in parts]
    own = torch.cat(parts) if parts else torch.zeros(0, width, device=processes.device)
    if processes.count > 1:
        padded = torch.zeros(-(-count // processes.count), width, device=own.device)
        padded[: len(own)] = own
        own = processes.concatenate(padded)[:count]
    return own.cpu()
