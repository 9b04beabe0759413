"""Views to backbone features, with an exact shortcut: a frozen backbone sees a clean image in two versions only.

With the shortcut the features of the image and of its mirror are computed once and kept, on the device, in host
memory or in a memory-mapped file.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import Tensor

from scob.data.views import Views
from scob.errors import UserError
from scob.model.backbone import Backbone, Features
from scob.model.fold import fast_copy


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """bf16 where it was asked for. No cache of cast weights: they change inside a step, and a captured step replays."""
    if precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def resolve_precision(device: torch.device, precision: str) -> str:
    """`auto` means bf16 on a GPU that has it in hardware and fp32 elsewhere (on most CPUs bf16 is slower)."""
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


class FeatureCache:
    """Features of N images, plain and mirrored: row 2i is image i, row 2i + 1 its mirror."""

    def __init__(
        self, images: int, like: Features, place: str, device: torch.device, folder: Path | None = None
    ) -> None:
        self.device, self.place = device, place
        self.maps: list[Tensor] = []
        for number, sample in enumerate(like):
            shape = (2 * images, *sample.shape[1:])
            if place == "disk":
                if folder is None:
                    raise UserError("train.feature_cache=disk needs a run folder to write to")
                folder.mkdir(parents=True, exist_ok=True)
                size = torch.Size(shape).numel()
                kept = torch.from_file(
                    str(folder / f"features{number}.bin"), shared=True, size=size, dtype=sample.dtype
                ).view(shape)
            else:
                kept = torch.empty(shape, dtype=sample.dtype, device=device if place == "device" else "cpu")
            self.maps.append(kept)

    def write(self, start: int, plain: Features, mirrored: Features) -> None:
        """Keep the features of images start, start + 1, ..."""
        count = len(plain[0])
        for kept, one, two in zip(self.maps, plain, mirrored, strict=True):
            kept[2 * start : 2 * (start + count) : 2] = one.to(kept.device)
            kept[2 * start + 1 : 2 * (start + count) : 2] = two.to(kept.device)

    def read(self, rows: Tensor, flip: Tensor) -> Features:
        """(B,) image rows and (B,) bool -> features on the device. A padding row reads some image's."""
        index = (2 * rows + flip).clamp(max=len(self.maps[0]) - 1)
        if self.place != "device":
            index = index.cpu()
        third, fourth = (kept[index].to(self.device, non_blocking=True) for kept in self.maps)
        return third, fourth


class FeatureSource:
    """Where a method gets features from. Two or three views go through the backbone in one forward."""

    def __init__(self, backbone: Backbone, views: Views, precision: str, cache: FeatureCache | None = None) -> None:
        self.backbone, self.views, self.precision, self.cache = backbone, views, precision, cache
        self.fast: Backbone | None = None
        self.forwards = 0

    def make_fast(self) -> None:
        """Run a frozen backbone folded and in the run's precision, once its statistics are what they will be."""
        if self.backbone.frozen and self.precision == "bf16":
            self.fast = fast_copy(self.backbone, torch.bfloat16)

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
            third, fourth = self.fast(stacked.to(torch.bfloat16))
        else:
            with autocast(device, self.precision):
                third, fourth = self.backbone(stacked)
        sizes = [len(v) for v in views]
        return list(zip(third.split(sizes), fourth.split(sizes), strict=True))

    @torch.no_grad()
    def fill(self, batches: Iterable[Tensor], images: int, place: str, folder: Path | None = None) -> None:
        """Compute and keep the clean features of all images, given in order as uint8 batches."""
        if not self.backbone.frozen:
            raise UserError("train.feature_cache needs model.freeze=all: features of a backbone that learns change")
        start = 0
        for images_uint8 in batches:
            off = torch.zeros(len(images_uint8), dtype=torch.bool, device=images_uint8.device)
            plain, mirrored = self.of(self.views.weak(images_uint8, off), self.views.weak(images_uint8, ~off))
            if self.cache is None:
                self.cache = FeatureCache(images, plain, place, images_uint8.device, folder)
            self.cache.write(start, plain, mirrored)
            start += len(images_uint8)
