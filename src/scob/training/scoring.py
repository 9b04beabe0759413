"""Scores of many images: batched, sharded over processes, every image counted exactly once."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob.data.feed import Feed
from scob.model.features import FeatureSource, autocast
from scob.model.network import Network
from scob.parallel import Processes


def row_batches(count: int, batch: int, rank: int = 0, processes: int = 1) -> Iterator[NDArray[np.int64]]:
    """Rows 0..count-1 in batches: the contiguous share of one of several processes."""
    share = -(-count // processes)
    mine = np.arange(rank * share, min(count, (rank + 1) * share), dtype=np.int64)
    for start in range(0, len(mine), batch):
        yield mine[start : start + batch]


@torch.no_grad()
def score_images(
    network: Network,
    source: FeatureSource,
    feed: Feed | None,
    count: int,
    batch: int = 64,
    mirror: bool = False,
    processes: Processes | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Probabilities (count, L) float32 on the CPU, in the order of the images.

    Features come from the source's cache where it has one, else from the images of `feed`. `mirror` averages the
    logits of the image and its mirror image.
    """
    processes = processes or Processes()
    was_training = network.training
    network.eval()
    found: list[Tensor] = []
    batches = list(row_batches(count, batch, processes.rank, processes.count))
    images = feed.iterate(batches) if source.cache is None and feed is not None else None
    for rows in batches:
        pictures = next(images) if images is not None else None
        device = source.cache.device if source.cache is not None else pictures.device  # type: ignore[union-attr]
        total: Tensor | None = None
        for turned in (False, True) if mirror else (False,):
            flip = torch.full((len(rows),), turned, device=device)
            if source.cache is not None:
                features = source.cache.read(torch.from_numpy(rows).to(device), flip)
            else:
                assert pictures is not None
                features = source.of(source.views.weak(pictures, flip))[0]
            with autocast(device, source.precision):
                logits = network.classify(features).float()
            total = logits if total is None else (total + logits) / 2
        assert total is not None
        found.append(total.sigmoid())
        if progress is not None:
            progress(len(rows))
    network.train(was_training)
    classes = network.classes
    mine = torch.cat(found) if found else torch.zeros(0, classes, device=processes.device)
    if processes.count > 1:
        share = -(-count // processes.count)
        padded = torch.zeros(share, classes, device=mine.device)
        padded[: len(mine)] = mine
        mine = processes.concatenate(padded)[:count]
    return mine.cpu()
