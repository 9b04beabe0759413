"""From views to backbone features, with an exact shortcut for a frozen backbone.

A frozen backbone sees only two versions of a clean image: the image and its mirror. Their features can be computed once
and cached, on the device, in host memory or in a memory-mapped file.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from scob.data.views import Views
from scob.errors import UserError
from scob.model.backbone import Backbone, Features
from scob.model.fold import fast_copy, has_batchnorm
from scob.model.row_tables import RowStorage


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """bf16 if asked for. Cast weights are not cached: they change within a step, and a captured step is replayed."""
    if precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def resolve_precision(device: torch.device, precision: str) -> str:
    """`auto` means bf16 on a GPU that has it in hardware, fp32 elsewhere (on most CPUs bf16 is slower)."""
    if precision == "fp64" and device.type == "mps":
        raise UserError("Apple's Metal has no 64-bit numbers: use train.device=cpu with train.precision=fp64")
    if precision != "auto":
        return precision
    # GPUs before Ampere only emulate bf16, which is slower than fp32.
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"


class FeatureCache:
    """Features of N images, plain and mirrored: row 2i is image i, row 2i + 1 its mirror."""

    def __init__(self, images: int, like: Features, storage: RowStorage, device: torch.device) -> None:
        self.device, self.storage = device, storage
        self.maps = [
            storage.table(f"features{number}", (2 * images, *sample.shape[1:]), sample.dtype, device)
            for number, sample in enumerate(like)
        ]

    def write(self, start: int, plain: Features, mirrored: Features) -> None:
        """Store the features of images start, start + 1, ..."""
        count = len(plain[0])
        for table, one, two in zip(self.maps, plain, mirrored, strict=True):
            table[2 * start : 2 * (start + count) : 2] = one.to(table.device)
            table[2 * start + 1 : 2 * (start + count) : 2] = two.to(table.device)

    def read(self, rows: Tensor, flip: Tensor) -> Features:
        """(B,) image rows and (B,) bool -> features on the device. A padding row reads any image."""
        index = (2 * rows + flip).clamp(max=len(self.maps[0]) - 1)
        if self.storage.kind != "device":
            index = index.cpu()
        third, fourth = (table[index].to(self.device, non_blocking=True) for table in self.maps)
        return third, fourth


def fast_backbone(backbone: Backbone, precision: str) -> Backbone | None:
    """A frozen backbone folded and in the run's precision, once its BatchNorm statistics are final; else None.

    In full precision only on a CPU: a GPU adds a convolution's bias in a pass of its own, which costs as much as
    BatchNorm.
    """
    if not backbone.frozen:
        return None
    if precision == "bf16":
        return fast_copy(backbone, torch.bfloat16)
    on_cpu = next(backbone.parameters()).device.type == "cpu"
    return fast_copy(backbone, torch.float32) if precision == "fp32" and on_cpu and has_batchnorm(backbone) else None


class FeatureSource:
    """Where a method gets its features. Two or three views go through the backbone in one forward pass."""

    def __init__(
        self,
        backbone: Backbone,
        views: Views,
        precision: str,
        fast: Backbone | None = None,
        cache: FeatureCache | None = None,
    ) -> None:
        self.backbone, self.views, self.precision, self.fast, self.cache = backbone, views, precision, fast, cache
        self.forwards = 0

    def of(self, *views: Tensor) -> list[Features]:
        """Features of each batch of normalised views."""
        device = views[0].device
        self.forwards += len(views)
        stacked = torch.cat(views) if len(views) > 1 else views[0]
        if device.type == "cuda" or stacked.shape[-1] >= 32:
            stacked = stacked.contiguous(memory_format=torch.channels_last)
        if self.precision == "fp64":
            stacked = stacked.double()
        if self.fast is not None:
            third, fourth = self.fast(stacked.to(torch.bfloat16 if self.precision == "bf16" else torch.float32))
        else:
            with autocast(device, self.precision):
                third, fourth = self.backbone(stacked)
        sizes = [len(v) for v in views]
        return list(zip(third.split(sizes), fourth.split(sizes), strict=True))

    def clean(self, rows: Tensor, images: Tensor | None, flip: Tensor) -> Features:
        """Features of the weak view of some images: from the cache if there is one, else from their pixels."""
        if self.cache is not None:
            return self.cache.read(rows, flip)
        assert images is not None
        return self.of(self.views.weak(images, flip))[0]


@torch.no_grad()
def cache_features(source: FeatureSource, batches: Iterable[Tensor], images: int, storage: RowStorage) -> FeatureCache:
    """Compute and store the clean features of all images, given in order as uint8 batches."""
    if not source.backbone.frozen:
        raise UserError("train.feature_cache needs model.freeze=all: the features of a backbone that learns change")
    cache: FeatureCache | None = None
    start = 0
    for pixels in batches:
        off = torch.zeros(len(pixels), dtype=torch.bool, device=pixels.device)
        plain, mirrored = source.of(source.views.weak(pixels, off), source.views.weak(pixels, ~off))
        if cache is None:
            cache = FeatureCache(images, plain, storage, pixels.device)
        cache.write(start, plain, mirrored)
        start += len(pixels)
    if cache is None:
        raise UserError("there are no images whose features could be cached")
    return cache
