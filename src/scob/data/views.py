"""Views of an image: weak (resize, flip), strong (weak, colour, blur) and crop, batched on the device.

Every draw is a function of seed, key and purpose (`scob.draws`), and a key stands for an image in an epoch, so a
resumed or distributed run makes the same views. On a GPU nothing waits for the device or loops over the batch.
"""

import math
from collections.abc import Sequence
from typing import cast

import kornia
import torch
from torch import Tensor
from torch.nn import functional

from scob.data.images import IMAGENET_MEAN, IMAGENET_STD
from scob.draws import seed_key, uniform

JITTER = (0.8, 0.8, 0.8, 0.2)  # brightness, contrast and saturation as shares; hue as a share of the colour circle
JITTER_SHARE, GREY_SHARE, BLUR_SHARE = 0.3, 0.2, 0.2
CROP_JITTER_SHARE = 0.8  # crops are for BYOL, MoCo and SimCLR, which jitter most images
BLUR_SIGMA = (0.1, 2.0)
CROP_AREA, CROP_ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)


class Views:
    """Turns uint8 batches (B, 3, H, W) into normalised float32 batches (B, 3, size, size)."""

    def __init__(
        self,
        size: int,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        seed: int = 0,
    ) -> None:
        self.size, self.seed = size, seed
        self.mean, self.std = tuple(mean), tuple(std)
        # A Gaussian of 2.0 needs a radius of 6; a kernel wider than the image could not be mirrored at its edges.
        self.blur_taps = min(13, 2 * ((size - 1) // 2) + 1)
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def flips(self, keys: Tensor, stream: str) -> Tensor:
        """Which images are mirrored: (B,) int64 -> (B,) bool."""
        return self._draw(keys, f"{stream} flip", 1)[:, 0] < 0.5

    def weak(self, images: Tensor, flip: Tensor) -> Tensor:
        """Squash-resize and mirror: (B, 3, H, W) uint8, (B,) bool -> (B, 3, S, S) float32, normalised."""
        return self.normalise(_mirror(self._resized(images), flip))

    def strong(self, images: Tensor, flip: Tensor, keys: Tensor) -> Tensor:
        """`weak`, then jitter, greyscale and blur, each for some images: -> (B, 3, S, S) float32, normalised."""
        unit = _unit(_mirror(self._resized(images), flip))
        return self._standardised(self._coloured(unit, keys, "strong", JITTER_SHARE))

    def recoloured(self, keys: Tensor) -> Tensor:
        """Which images the strong view changes, beyond mirroring them: (B,) int64 -> (B,) bool."""
        return self._changes(keys, "strong", JITTER_SHARE).any(dim=1)

    def crop(self, images: Tensor, keys: Tensor, stream: str) -> Tensor:
        """A random part of each image, mirrored at random and coloured: -> (B, 3, S, S) float32, normalised."""
        flip = self.flips(keys, stream)
        unit = self._cropped(_unit(images), flip, self._draw(keys, f"{stream} crop", 4))
        return self._standardised(self._coloured(unit, keys, stream, CROP_JITTER_SHARE))

    def normalise(self, images: Tensor) -> Tensor:
        """Resize if necessary and normalise: (B, 3, H, W) uint8 -> (B, 3, S, S) float32."""
        return self._standardised(_unit(self._resized(images)))

    def _draw(self, keys: Tensor, stream: str, count: int) -> Tensor:
        """`count` numbers in [0, 1) per key; the 0 keeps views identical to those of earlier versions."""
        return uniform(keys, seed_key(self.seed, 0, stream), count)

    def _changes(self, keys: Tensor, stream: str, jitter_share: float) -> Tensor:
        """Whether each image is jittered, made grey, blurred: -> (B, 3) bool."""
        shares = torch.tensor((jitter_share, GREY_SHARE, BLUR_SHARE), device=keys.device)
        return self._draw(keys, f"{stream} colour", 8)[:, 5:8] < shares

    def _resized(self, images: Tensor) -> Tensor:
        if images.shape[-2:] == (self.size, self.size):
            return images
        squashed = functional.interpolate(
            images.to(torch.float32), (self.size, self.size), mode="bilinear", antialias=True
        )
        return squashed.round_().clamp_(0, 255).to(torch.uint8)

    def _standardised(self, unit: Tensor) -> Tensor:
        if unit.device not in self._constants:
            mean = torch.tensor(self.mean, device=unit.device).view(1, 3, 1, 1)
            std = torch.tensor(self.std, device=unit.device).view(1, 3, 1, 1)
            self._constants[unit.device] = (mean, std)
        mean, std = self._constants[unit.device]
        return unit.sub_(mean).div_(std)

    def _coloured(
        self,
        unit: Tensor,
        keys: Tensor,
        stream: str,
        jitter_share: float,
        pick: bool | None = None,
    ) -> Tensor:
        """Jitter, greyscale and blur of a batch in [0, 1], in the same order for all images.

        `pick`: compute only the images that change. That is the default on a CPU; a GPU would have to wait to learn
        which they are, so it computes all of them and keeps those that change.
        """
        pick = unit.device.type == "cpu" if pick is None else pick
        draw = self._draw(keys, f"{stream} colour", 8)
        brightness, contrast, saturation = (1 + width * (2 * draw[:, i] - 1) for i, width in enumerate(JITTER[:3]))
        hue = 2 * math.pi * JITTER[3] * (2 * draw[:, 3] - 1)
        low, high = BLUR_SIGMA
        sigma = low + (high - low) * draw[:, 4]

        def jitter(x: Tensor, rows: Tensor | slice) -> Tensor:
            x = kornia.enhance.adjust_brightness_accumulative(x, brightness[rows])
            x = kornia.enhance.adjust_contrast_with_mean_subtraction(x, contrast[rows])
            x = kornia.enhance.adjust_saturation_with_gray_subtraction(x, saturation[rows])
            return cast(Tensor, kornia.enhance.adjust_hue(x, hue[rows]))

        def grey(x: Tensor, rows: Tensor | slice) -> Tensor:
            return cast(Tensor, kornia.color.rgb_to_grayscale(x)).expand_as(x)

        def blur(x: Tensor, rows: Tensor | slice) -> Tensor:
            taps = kornia.filters.get_gaussian_kernel1d(self.blur_taps, sigma[rows, None])
            return cast(Tensor, kornia.filters.filter2d_separable(x, taps, taps))

        for change, selected in (
            (jitter, draw[:, 5] < jitter_share),
            (grey, draw[:, 6] < GREY_SHARE),
            (blur, draw[:, 7] < BLUR_SHARE),
        ):
            if not pick:
                unit = torch.where(selected[:, None, None, None], change(unit, slice(None)), unit)
                continue
            rows = selected.nonzero()[:, 0]
            if len(rows):
                unit[rows] = change(unit[rows], rows)
        return unit

    def _cropped(self, unit: Tensor, flip: Tensor, draw: Tensor) -> Tensor:
        """Resample one random box per image, no larger than the image; a negative scale mirrors it."""
        area = CROP_AREA[0] + (CROP_AREA[1] - CROP_AREA[0]) * draw[:, 0]
        low, high = math.log(CROP_ASPECT[0]), math.log(CROP_ASPECT[1])
        aspect = torch.exp(low + (high - low) * draw[:, 1])
        # The box is drawn on the image as the network sees it: squashed to a square with sides of 1.
        wide = (area * aspect).sqrt().clamp(max=1.0)
        tall = (area / aspect).sqrt().clamp(max=1.0)
        x = (2 * draw[:, 2] - 1) * (1 - wide)
        y = (2 * draw[:, 3] - 1) * (1 - tall)
        sign = torch.where(flip, -1.0, 1.0)
        zero = torch.zeros_like(x)
        matrix = torch.stack([torch.stack([sign * wide, zero, x], 1), torch.stack([zero, tall, y], 1)], 1)
        grid = functional.affine_grid(matrix, [len(unit), 3, self.size, self.size], align_corners=False)
        return functional.grid_sample(unit, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _mirror(images: Tensor, flip: Tensor) -> Tensor:
    return torch.where(flip[:, None, None, None], images.flip(-1), images)


def _unit(images: Tensor) -> Tensor:
    """uint8 -> float32 in [0, 1], a new tensor."""
    return images / 255.0
