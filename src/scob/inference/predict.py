"""Naming what is in images with a trained model: a model folder, a run folder, or an exported ONNX file.

torch is imported only where a torch model is loaded, so that predicting with ONNX starts without it.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scob.data.find_images import find_images
from scob.data.images import decode
from scob.errors import UserError
from scob.inference.predictions import Prediction, PredictionFile, decide
from scob.training.find_model import find_model

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from scob.inference.explain import Explanation
    from scob.model.network import Network
    from scob.training.model_folder import ModelCard

    Picture = str | Path | NDArray[np.uint8] | Image.Image

Progress = Callable[[int, int], None]
Pixels = NDArray[np.uint8]
Decoded = tuple[int, Pixels | None, str]


class Scorer(Protocol):
    """What predicts: squash-resized pixels (B, S, S, 3) uint8 in, probabilities (B, L) out."""

    classes: tuple[str, ...]
    size: int
    thresholds: NDArray[np.float32]

    def scores(self, pixels: Pixels) -> NDArray[np.float32]: ...


class Scob:
    """A trained model on a device.

    >>> model = Scob.from_pretrained("runs/photos")  # doctest: +SKIP
    >>> model.predict(["beach.jpg"])[0].labels  # doctest: +SKIP
    ('person', 'dog')
    """

    def __init__(self, network: "Network", card: "ModelCard", device: "torch.device") -> None:
        self.network, self.card, self.device = network, card, device
        self.classes, self.size = card.classes, card.size
        self.thresholds = np.array(card.thresholds, np.float32)

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str = "auto") -> "Scob":
        """Load a model folder, or the model of a finished run folder."""
        import torch

        from scob.parallel import choose_device
        from scob.training.model_folder import load_network

        model = find_model(folder)
        if model.is_onnx:
            raise UserError(
                f"{model.path} is an ONNX file, which can only predict: give the model folder it was exported from"
            )
        chosen = choose_device(device)
        network, card = load_network(model.path, chosen)
        if chosen.type in ("cpu", "cuda"):
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return cls(network, card, chosen)

    def prepare(self, pixels: Pixels) -> "torch.Tensor":
        """(B, S, S, 3) uint8 -> normalised (B, 3, S, S) on the device, channels last."""
        import torch

        # A (B, S, S, 3) array seen as (B, 3, S, S) is channels-last already: nothing is copied until the division.
        planes = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).to(self.device)
        mean = torch.tensor(self.card.mean, device=self.device).view(1, 3, 1, 1)
        std = torch.tensor(self.card.std, device=self.device).view(1, 3, 1, 1)
        return (planes.float() / 255 - mean) / std

    def scores(self, pixels: Pixels) -> NDArray[np.float32]:
        """(B, S, S, 3) uint8 -> probabilities (B, L)."""
        import torch

        with torch.inference_mode():
            found: NDArray[np.float32] = self.network(self.prepare(pixels)).float().sigmoid().cpu().numpy()
        return found

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
        pictures = as_list(images)
        return list(predict_images(self, pictures, batch, topk, threshold, include_scores, progress))

    def explain(
        self, images: "Picture | Sequence[Picture]", classes: Sequence[str] | None = None, batch: int = 16, **how: Any
    ) -> "list[Explanation]":
        """Where the predicted (or the asked) classes were seen; see `scob.explain.explain_images`."""
        from scob.inference.explain import explain_images

        return list(explain_images(self, as_list(images), classes, batch, **how))


def as_list(images: "Picture | Sequence[Picture]") -> "list[Picture]":
    """One picture or several, as a list."""
    if isinstance(images, (str, Path, np.ndarray)) or hasattr(images, "convert"):
        if isinstance(images, np.ndarray) and images.ndim == 4:
            return list(images)
        return [images]  # type: ignore[list-item]
    return list(images)


def load_model(path: str | Path, device: str = "auto") -> Scorer:
    """A torch model of a model or run folder, or an ONNX file without torch."""
    model = find_model(path)
    if model.is_onnx:
        from scob.inference.onnx.runtime import OnnxModel

        return OnnxModel(model.path, device=device)
    return Scob.from_pretrained(model.path, device)


def load_picture(picture: "Picture", size: int) -> Pixels:
    """(size, size, 3) of a path, an array or a PIL image, all by the one decoder."""
    if isinstance(picture, (str, Path)):
        return decode(picture, size)
    from PIL import Image

    if isinstance(picture, np.ndarray):
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise UserError(f"an image array must be (H, W, 3) uint8, not {picture.shape} {picture.dtype}")
        picture = Image.fromarray(picture)
    rgb = picture.convert("RGB")
    if rgb.size != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(rgb)


def name_of(picture: "Picture", number: int) -> str:
    """How a picture is named in the results."""
    return str(picture) if isinstance(picture, (str, Path)) else f"image {number}"


def reason(error: UserError, name: str) -> str:
    """The error of one image without its name and without advice on training."""
    return str(error).removeprefix(f"{name}: ").partition(";")[0]


def decoded_batches(
    pictures: "Sequence[Picture]", size: int, batch: int, workers: int | None = None
) -> Generator[list[Decoded], None, None]:
    """Batches of (number, pixels or None, error), decoded by threads two batches ahead of their use."""

    def load(number: int) -> Decoded:
        try:
            return number, load_picture(pictures[number], size), ""
        except UserError as error:
            return number, None, reason(error, name_of(pictures[number], number))

    if batch < 1:
        raise UserError(f"the batch must hold at least one image, not {batch}")
    with ThreadPoolExecutor(workers or min(8, os.cpu_count() or 1), "scob-decode") as pool:
        coming: deque[list[Future[Decoded]]] = deque()
        try:
            for start in range(0, len(pictures), batch):
                coming.append([pool.submit(load, i) for i in range(start, min(start + batch, len(pictures)))])
                if len(coming) > 2:
                    yield [future.result() for future in coming.popleft()]
            while coming:
                yield [future.result() for future in coming.popleft()]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def predict_images(
    model: Scorer,
    pictures: "Sequence[Picture]",
    batch: int = 16,
    topk: int | None = None,
    threshold: float | None = None,
    include_scores: bool = False,
    progress: Progress | None = None,
) -> Iterator[Prediction]:
    """One prediction a picture, in their order; a broken one carries its error."""
    if topk is not None and topk < 1:
        raise UserError(f"--topk must be at least 1, not {topk}")
    done = 0
    with closing(decoded_batches(pictures, model.size, batch)) as batches:
        for group in batches:
            whole = [pixels for _, pixels, _ in group if pixels is not None]
            found = iter(model.scores(np.stack(whole)) if whole else ())
            for number, pixels, error in group:
                name = name_of(pictures[number], number)
                if pixels is None:
                    yield Prediction(name, error=error)
                    continue
                yield decide(name, next(found), model.classes, model.thresholds, topk, threshold, include_scores)
            done += len(group)
            if progress is not None:
                progress(done, len(pictures))


def share_of(count: int, rank: int, processes: int) -> range:
    """The contiguous part of `count` images that one of several processes looks at."""
    each = -(-count // processes)
    return range(min(count, rank * each), min(count, (rank + 1) * each))


def predict(
    model: str | Path,
    images: Iterable[str | Path],
    out: Path | None = None,
    format: str = "csv",
    batch: int = 16,
    topk: int | None = None,
    threshold: float | None = None,
    include_scores: bool = False,
    device: str = "auto",
    stdin: Iterable[str] = (),
    progress: Progress | None = None,
) -> dict[str, int]:
    """`scob predict`: name what is in files, folders and patterns, and write it to `out` (stdout without one).

    Under `accelerate launch` every process takes its share and the first one writes. Returns counts.
    """
    found = find_images(images, stdin)
    scorer = load_model(model, device)
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    mine = [found.paths[i] for i in share_of(len(found.paths), rank, processes)]
    made = predict_images(scorer, mine, batch, topk, threshold, include_scores, progress)
    if processes > 1:
        made = _gathered(made, device)
        if rank:
            return {"images": 0, "broken": 0, "skipped": 0, "rank": rank}
    broken = 0
    with PredictionFile(out, format, scorer.classes, include_scores) as file:
        for prediction in made:
            file.add(prediction)
            broken += bool(prediction.error)
    return {"images": file.count, "broken": broken, "skipped": found.skipped, "rank": rank}


def _gathered(mine: Iterable[Prediction], device: str) -> Iterator[Prediction]:
    """The predictions of all processes, in the order of the processes."""
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState(cpu=device == "cpu")
    every: list[Prediction] = gather_object(list(mine))
    state.wait_for_everyone()
    return iter(every)
