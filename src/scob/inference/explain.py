"""Where a model saw what it names: activation map, mask and box of a class, for many images at once."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from scob.algorithm.cam import activation_maps, foreground
from scob.data.find_images import find_images
from scob.data.images import decode
from scob.errors import UserError, nearest
from scob.files import write_atomically
from scob.inference.predict import Progress, Scob, decoded_batches, name_of
from scob.inference.predictions import decide

if TYPE_CHECKING:
    from scob.inference.predict import Picture
    from scob.model.backbone import Features
    from scob.model.heads import Keep
    from scob.model.network import Network

Box = tuple[float, float, float, float]
PAIRS = 64  # (image, class) pairs differentiated at once: bounds the memory whatever the number of classes
OVERLAY_SIDE = 1024
SPECK = 0.25  # of the largest part of a mask: smaller parts are not in its box


@dataclass(frozen=True)
class Explanation:
    """One class in one image. `heat` (h, w) lies in [0, 1]; `box` is x0, y0, x1, y1 in fractions of the image.

    A broken image has an `error` and nothing else.
    """

    image: str
    label: str = ""
    score: float = 0.0
    heat: NDArray[np.float32] | None = None
    box: Box | None = None
    error: str = ""

    def mask(self, height: int, width: int, threshold: float = 0.5) -> NDArray[np.bool_]:
        """The foreground at any size, (height, width)."""
        assert self.heat is not None
        return np.asarray(enlarge(self.heat, height, width) >= threshold)


@dataclass(frozen=True)
class PairMaps:
    """Maps of P (image, class) pairs at the finer grid, and the cells that Eq. 3 keeps at both."""

    heat: Tensor  # (P, h, w)
    keep: "Keep"


def pair_maps(
    network: "Network", features: "Features", rows: Tensor, classes: Tensor, threshold: float = 0.5, cam: str = "grad"
) -> PairMaps:
    """The maps of some (image, class) pairs: features of B images, rows (P,) in [0, B), classes (P,).

    The heat is the mean of both stages' maps: stage 4 knows the class better, stage 3 its outline.
    """
    heats, thirds, fourths = [], [], []
    for start in range(0, len(rows), PAIRS):
        chosen = rows[start : start + PAIRS]
        with torch.enable_grad():
            leaves = (
                features[0][chosen].detach().clone().requires_grad_(),
                features[1][chosen].detach().clone().requires_grad_(),
            )
            third, fourth = activation_maps(network.classify(leaves), leaves, classes[start : start + PAIRS], cam)
        coarse = F.interpolate(fourth[:, None], size=third.shape[1:], mode="bilinear", align_corners=False)[:, 0]
        both = (third + coarse) / 2
        peak = both.amax(dim=(1, 2), keepdim=True)
        heats.append(both / torch.where(peak > 0, peak, torch.ones_like(peak)))
        thirds.append(foreground(third, 3, threshold))
        fourths.append(foreground(fourth, 1, threshold))
    return PairMaps(torch.cat(heats), (torch.cat(thirds), torch.cat(fourths)))


def enlarge(heat: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Bilinear, cell centres on cell centres: (h, w) -> (height, width)."""
    cells = torch.from_numpy(heat)[None, None]
    grown = F.interpolate(cells, size=(height, width), mode="bilinear", align_corners=False)
    return np.asarray(grown[0, 0].numpy(), dtype=np.float32)


def without_specks(heat: NDArray[np.float32], threshold: float, least: float = SPECK) -> NDArray[np.float32]:
    """The map (h, w) without the parts beyond `threshold` that are small beside the largest: a box is not for those."""
    inside = heat >= threshold
    parts = np.where(inside, np.arange(1, heat.size + 1).reshape(heat.shape), 0)
    while True:  # each cell takes the highest number of its neighbours: a part ends with one number
        wide = np.pad(parts, 1)
        shifted = [wide[y : y + heat.shape[0], x : x + heat.shape[1]] for y in range(3) for x in range(3)]
        grown = np.where(inside, np.max(shifted, axis=0), 0)
        if (grown == parts).all():
            break
        parts = grown
    sizes = np.bincount(parts.ravel(), minlength=heat.size + 1)
    sizes[0] = 0
    return np.where(inside & (sizes[parts] < least * sizes.max()), np.float32(0), heat)


def box_of(mask: NDArray[np.bool_]) -> Box | None:
    """The smallest box around a mask, as fractions; None around nothing."""
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    height, width = mask.shape
    return (
        float(columns[0] / width),
        float(rows[0] / height),
        float((columns[-1] + 1) / width),
        float((rows[-1] + 1) / height),
    )


def rle(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """COCO's compressed run-length encoding, as plain JSON."""
    from pycocotools import mask as coco

    made = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": [int(side) for side in made["size"]], "counts": made["counts"].decode("ascii")}


def class_numbers(names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """Where the asked classes stand."""
    place = {name: number for number, name in enumerate(classes)}
    for name in names:
        if name not in place:
            raise UserError(f"the model has no class {name!r}.{nearest(name, classes)}")
    return [place[name] for name in names]


def explain_images(
    model: Scob,
    pictures: "Sequence[Picture]",
    classes: Sequence[str] | None = None,
    batch: int = 16,
    topk: int | None = None,
    threshold: float | None = None,
    mask_threshold: float = 0.5,
    cam: str = "grad",
    progress: Progress | None = None,
) -> Iterator[Explanation]:
    """An explanation of every predicted (or asked) class of every picture, image by image.

    The backbone runs once an image; only the head is differentiated, for all pairs of a batch together.
    """
    asked = class_numbers(classes, model.classes) if classes is not None else None
    place = {name: number for number, name in enumerate(model.classes)}
    done = 0
    with closing(decoded_batches(pictures, model.size, batch)) as batches:
        for group in batches:
            whole = [pixels for _, pixels, _ in group if pixels is not None]
            features, scores = _look(model, whole) if whole else (None, np.zeros((0, 0), np.float32))
            rows: list[int] = []
            chosen: list[int] = []
            for row, found in enumerate(scores):
                if asked is not None:
                    numbers = asked
                else:
                    named = decide("", found, model.classes, model.thresholds, topk, threshold)
                    numbers = [place[label] for label in named.labels]
                rows += [row] * len(numbers)
                chosen += numbers
            heats: NDArray[np.float32] = np.zeros((0, 1, 1), np.float32)
            if rows and features is not None:
                where = torch.tensor(rows, device=model.device), torch.tensor(chosen, device=model.device)
                heats = pair_maps(model.network, features, *where, mask_threshold, cam).heat.cpu().numpy()
            row, pair = 0, 0
            for number, pixels, error in group:
                name = name_of(pictures[number], number)
                if pixels is None:
                    yield Explanation(name, error=error)
                    continue
                while pair < len(rows) and rows[pair] == row:
                    heat, c = heats[pair], chosen[pair]
                    clean = without_specks(heat, mask_threshold)
                    box = box_of(enlarge(clean, model.size, model.size) >= mask_threshold)
                    yield Explanation(name, model.classes[c], float(scores[row, c]), heat, box)
                    pair += 1
                row += 1
            done += len(group)
            if progress is not None:
                progress(done, len(pictures))


@torch.no_grad()
def _look(model: Scob, pixels: "list[NDArray[np.uint8]]") -> "tuple[Features, NDArray[np.float32]]":
    """Features and scores of decoded pictures, one backbone pass for both."""
    features = model.network.backbone(model.prepare(np.stack(pixels)))
    return features, model.network.classify(features).float().sigmoid().cpu().numpy()


def overlay(pixels: NDArray[np.uint8], explanation: Explanation, threshold: float = 0.5) -> Image.Image:
    """The picture with the map as colour, the mask's outline in white and the box around it."""
    height, width = pixels.shape[:2]
    assert explanation.heat is not None
    heat = enlarge(explanation.heat, height, width)[..., None]
    warm = np.concatenate((np.full_like(heat, 255), 60 + 180 * (1 - heat), np.full_like(heat, 20)), axis=2)
    mixed = pixels * (1 - 0.55 * heat) + warm * 0.55 * heat
    inside = heat[..., 0] >= threshold
    inner = inside.copy()
    inner[1:] &= inside[:-1]
    inner[:-1] &= inside[1:]
    inner[:, 1:] &= inside[:, :-1]
    inner[:, :-1] &= inside[:, 1:]
    mixed[inside & ~inner] = 255
    picture = Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    if explanation.box is not None:
        x0, y0, x1, y1 = explanation.box
        corners = (x0 * width, y0 * height, x1 * width - 1, y1 * height - 1)
        draw.rectangle(corners, outline=(0, 114, 178), width=max(1, width // 200))
    caption = f"{explanation.label} {explanation.score:.2f}".encode("latin-1", "replace").decode("latin-1")
    left, top, right, bottom = draw.textbbox((4, 3), caption)
    draw.rectangle((left - 3, top - 2, right + 3, bottom + 2), fill=(0, 0, 0))
    draw.text((4, 3), caption, fill=(255, 255, 255))
    return picture


def explain(
    model: str | Path,
    images: Iterable[str | Path],
    out: Path,
    masks: str = "rle",
    overlays: bool = True,
    classes: Sequence[str] | None = None,
    batch: int = 16,
    topk: int | None = None,
    threshold: float | None = None,
    mask_threshold: float = 0.5,
    cam: str = "grad",
    device: str = "auto",
    stdin: Iterable[str] = (),
    progress: Progress | None = None,
) -> dict[str, int]:
    """`scob explain`: write overlays, masks and `explanations.json` to the folder `out`; returns counts.

    Masks have the size of their image: PNG files, or COCO run lengths inside `explanations.json`.
    """
    if masks not in ("none", "png", "rle"):
        raise UserError(f"--masks is {masks!r}: use none, png or rle")
    if cam not in ("grad", "grad++"):
        raise UserError(f"--cam is {cam!r}: use grad or grad++")
    found = find_images(images, stdin)
    scob = Scob.from_pretrained(model, device)
    records: list[dict[str, Any]] = []
    names = unique_names(found.paths, [Path(path).stem for path in found.paths])
    labels = unique_names(scob.classes, scob.classes)
    made = explain_images(scob, found.paths, classes, batch, topk, threshold, mask_threshold, cam, progress)
    broken = 0
    shown: tuple[str, NDArray[np.uint8]] | None = None
    for e in made:
        if e.error:
            broken += 1
            records.append({"image": e.image, "error": e.error})
            continue
        if shown is None or shown[0] != e.image:
            shown = (e.image, decode(e.image))
        pixels = shown[1]
        mask = e.mask(pixels.shape[0], pixels.shape[1], mask_threshold)
        stem = f"{names[e.image]}.{labels[e.label]}"
        record: dict[str, Any] = {"image": e.image, "class": e.label, "score": round(e.score, 6), "box": e.box}
        if overlays:
            record["overlay"] = f"overlays/{stem}.png"
            write_png(out / record["overlay"], shrink(pixels, OVERLAY_SIDE), e, mask_threshold)
        if masks == "rle":
            record["mask"] = rle(mask)
        elif masks == "png":
            record["mask"] = f"masks/{stem}.png"
            write_atomically(out / record["mask"], png(Image.fromarray(mask.astype(np.uint8) * 255)))
        records.append(record)
    write_atomically(out / "explanations.json", json.dumps(records, indent=1) + "\n")
    return {
        "images": len(found.paths), "explained": len(records) - broken, "broken": broken, "skipped": found.skipped,
    }  # fmt: skip


def unique_names(keys: Sequence[str], wishes: Sequence[str]) -> dict[str, str]:
    """A file name for every key, as near to its wish as can be, no two the same on any file system."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key, wish in zip(keys, wishes, strict=True):
        name, number = safe(wish), 1
        while name.lower() in taken:
            number += 1
            name = f"{safe(wish)}-{number}"
        taken.add(name.lower())
        names[key] = name
    return names


def safe(name: str) -> str:
    """A name that is a file name everywhere."""
    return re.sub(r"[^\w.-]+", "_", name.encode("utf-8", "replace").decode()).strip(".")[:80] or "_"


def shrink(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """At most `side` on the longer side."""
    height, width = pixels.shape[:2]
    if max(height, width) <= side:
        return pixels
    ratio = side / max(height, width)
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))


def write_png(path: Path, pixels: NDArray[np.uint8], explanation: Explanation, threshold: float) -> None:
    """One overlay."""
    write_atomically(path, png(overlay(pixels, explanation, threshold)))


def png(picture: Image.Image) -> bytes:
    """A picture's bytes as PNG."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
