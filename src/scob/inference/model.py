"""Opening and using a trained model: a model folder, a run folder, or an exported ONNX file.

torch is imported only when a torch model is opened, so predicting with ONNX starts without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from scob.data.progress import Progress
from scob.errors import UserError
from scob.inference.decoding import Pixels, as_list
from scob.inference.predictions import NamingRule, Prediction
from scob.training.find_model import find_model

if TYPE_CHECKING:
    import torch
    from torch import nn

    from scob.algorithm.cam import MapSettings
    from scob.inference.decoding import Picture
    from scob.inference.explain import Explanation
    from scob.inference.hub import HubOptions
    from scob.model.network import Network
    from scob.training.model_folder import ModelCard


@dataclass(frozen=True)
class InferenceOptions:
    """How a model is run: images per batch, the device (auto, cpu, cuda, cuda:1, mps), and the progress callback."""

    batch: int = 16
    device: str = "auto"
    progress: Progress | None = None


class Scorer(Protocol):
    """Anything that scores images: squash-resized pixels (B, S, S, 3) uint8 in, probabilities (B, L) out."""

    classes: tuple[str, ...]
    size: int
    thresholds: NDArray[np.float32]

    def scores(self, pixels: Pixels) -> NDArray[np.float32]: ...


class Scob:
    """A trained model on a device.

    Examples:
        >>> model = Scob.from_pretrained("runs/photos")  # doctest: +SKIP
        >>> model.predict(["beach.jpg"])[0].labels  # doctest: +SKIP
        ('person', 'dog')
    """

    def __init__(
        self,
        network: "Network",
        card: "ModelCard",
        device: "torch.device",
        folder: Path | None = None,
        precision: Literal["fp32", "bf16"] = "fp32",
    ) -> None:
        if precision not in ("fp32", "bf16"):
            raise UserError(f"a model predicts with precision fp32 or bf16, not {precision!r}")
        self.network, self.card, self.device, self.folder, self.precision = network, card, device, folder, precision
        self.classes, self.size = card.classes, card.size
        self.thresholds = np.array(card.thresholds, np.float32)

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, device: str = "auto", precision: Literal["fp32", "bf16"] = "fp32"
    ) -> "Scob":
        """Load a model folder, the model of a finished run folder, or a model on the hub ("owner/name").

        With `precision="bf16"` it predicts in half precision (`FastNetwork`), which is faster on a GPU; probabilities
        differ by up to 0.08 (docs/results.md). It still explains in full precision.
        """
        import torch

        from scob.parallel import choose_device
        from scob.training.model_folder import load_network

        model = find_model(folder)
        if model.is_onnx:
            raise UserError(
                f"{model.path} is an ONNX file, which can only predict: give the model folder it was exported from"
            )
        torch_device = choose_device(device)
        network, card = load_network(model.path, torch_device)
        if torch_device.type in ("cpu", "cuda"):
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return cls(network, card, torch_device, model.run or model.path, precision)

    def push_to_hub(self, name: str, options: "HubOptions | None" = None) -> str:
        """Publish the model as "owner/name" on the hub, with a model card; returns its address."""
        from scob.inference.hub import HubOptions, push_to_hub

        if self.folder is None:
            raise UserError("only a model that was opened with from_pretrained can be published")
        return push_to_hub(self.folder, name, options or HubOptions())

    def prepare(self, pixels: Pixels) -> "torch.Tensor":
        """(B, S, S, 3) uint8 -> normalised (B, 3, S, S) on the device, channels last."""
        import torch

        # A (B, S, S, 3) array viewed as (B, 3, S, S) is channels-last already: nothing is copied until the division.
        planes = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).to(self.device)
        mean = torch.tensor(self.card.mean, device=self.device).view(1, 3, 1, 1)
        std = torch.tensor(self.card.std, device=self.device).view(1, 3, 1, 1)
        return (planes.float() / 255 - mean) / std

    def scores(self, pixels: Pixels) -> NDArray[np.float32]:
        """(B, S, S, 3) uint8 -> probabilities (B, L)."""
        import torch

        predictor = self._predictor
        with torch.inference_mode():
            probabilities: NDArray[np.float32] = predictor(self.prepare(pixels)).float().sigmoid().cpu().numpy()
        return probabilities

    @cached_property
    def _predictor(self) -> "nn.Module":
        """What computes the scores: a fast copy of the network, in half precision or for a CPU, or the network."""
        import torch

        from scob.model.fast_network import FastNetwork
        from scob.model.fold import has_batchnorm

        if self.precision == "bf16":
            return FastNetwork(self.network, torch.bfloat16)
        folds = self.device.type == "cpu" and has_batchnorm(self.network.backbone)
        return FastNetwork(self.network, torch.float32) if folds else self.network

    def predict(
        self,
        images: "Picture | Sequence[Picture]",
        batch: int = 16,
        topk: int | None = None,
        threshold: float | None = None,
        include_scores: bool = False,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        """Name what is in images: paths, arrays (H, W, 3) uint8 or PIL images. A broken file has an `error`."""
        from scob.inference.predict import predict_images

        naming = NamingRule(topk, threshold)
        return list(predict_images(self, as_list(images), naming, batch, include_scores, progress))

    def explain(
        self,
        images: "Picture | Sequence[Picture]",
        classes: Sequence[str] | None = None,
        batch: int = 16,
        topk: int | None = None,
        threshold: float | None = None,
        maps: "MapSettings | None" = None,
    ) -> "list[Explanation]":
        """Show where the predicted classes, or the given `classes`, are in each image."""
        from scob.inference.class_maps import EXPLAINED
        from scob.inference.explain import explain_images

        naming = classes if classes is not None else NamingRule(topk, threshold)
        return list(explain_images(self, as_list(images), naming, maps or EXPLAINED, batch))


def load_model(path: str | Path, device: str = "auto") -> Scorer:
    """Open a model: with torch from a model or run folder, without torch from an ONNX file."""
    model = find_model(path)
    if model.is_onnx:
        from scob.inference.onnx.runtime import OnnxModel

        return OnnxModel(model.path, device=device)
    return Scob.from_pretrained(model.path, device)
