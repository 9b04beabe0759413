"""The model folder: config.json and model.safetensors, which suffice to predict, and a human-readable README."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from scob.config import ModelSettings
from scob.errors import UserError
from scob.files import fingerprint, open_sealed, sealed, write_atomically
from scob.model.backbone import Backbone
from scob.model.load_backbone import backbone_from_config
from scob.model.network import Network, build_network
from scob.tensor_file import RawTensor, file_pieces
from scob.training.host_memory import keep_freed_memory

FORMAT = "scob-model-1"
LARGEST_THRESHOLD = 1e9


@dataclass
class ModelCard:
    """What a model folder says about itself (config.json)."""

    classes: tuple[str, ...]
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    thresholds: tuple[float, ...]
    model: dict[str, Any]
    grids: tuple[tuple[int, int], tuple[int, int]]
    backbone_name: str
    backbone: dict[str, Any]
    method: str
    labels: dict[str, str]
    evaluation: dict[str, Any] | None = None
    head: dict[str, Any] | None = None  # the recipe of a head that belongs to the method
    weights: str = ""  # SHA-256 of model.safetensors

    def to_json(self) -> str:
        return json.dumps(sealed({"format": FORMAT, **self.__dict__}), indent=1, ensure_ascii=False)

    @staticmethod
    def read(folder: Path) -> "ModelCard":
        """Read and check config.json of a model folder."""
        file = folder / "config.json"
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{folder} is not a model folder: it has no config.json") from None
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{file} cannot be read: {error}") from error
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise UserError(
                f"{folder} contains a model of another version of Scob (expected {FORMAT}): train or convert it again"
            )
        try:
            content = open_sealed(stored)
            del content["format"]
            card = ModelCard(**content)
            card.classes = tuple(str(c) for c in card.classes)
            card.mean, card.std = tuple(map(float, card.mean)), tuple(map(float, card.std))
            card.thresholds = tuple(map(float, card.thresholds))
            card.size, card.weights = int(card.size), str(card.weights)
            card.grids = tuple((int(h), int(w)) for h, w in card.grids)  # type: ignore[assignment]
            sane = len(card.grids) == 2 and len(card.mean) == len(card.std) == 3 and 16 <= card.size <= 4096
            sane = sane and len(card.thresholds) == len(card.classes) and 0 < len(card.classes) <= 1_000_000
            if not sane:
                raise ValueError("sizes do not fit together")
            if not all(abs(limit) < LARGEST_THRESHOLD for limit in card.thresholds):  # not so for NaN
                raise ValueError("a threshold is not a finite number")
        except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise UserError(f"{file} is damaged: {error}") from error
        return card


def write_model(folder: Path, network: Network, card: ModelCard) -> None:
    """Write the weights first, then the card, which makes the folder a model."""
    stored = file_pieces({name: RawTensor.of_torch(v) for name, v in network.state_dict().items()}, {"format": "pt"})
    digest = hashlib.sha256()
    for piece in stored:
        digest.update(piece)
    card.weights = digest.hexdigest()
    write_atomically(folder / "model.safetensors", stored)
    write_atomically(folder / "config.json", card.to_json())
    write_atomically(folder / "README.md", describe(card))


def describe(card: ModelCard) -> str:
    """The card as a README for people."""
    measured = card.evaluation or {}
    lines = [
        "# A Scob model",
        "",
        f"Names {len(card.classes)} classes: {', '.join(map(plain, card.classes[:40]))}"
        f"{', ...' if len(card.classes) > 40 else ''}",
        "",
        f"- Method: {card.method}; backbone: {plain(card.backbone_name)}",
        f"- Labels: {plain(str(card.labels.get('origin')))} (SHA-256 {card.labels.get('fingerprint')})",
        f"- Input: RGB, squash-resized to {card.size} x {card.size}, divided by 255, mean {card.mean}, std {card.std}",
        f"- Thresholds: {min(card.thresholds):.3f} to {max(card.thresholds):.3f} (one per class, in config.json)",
    ]
    if measured.get("mAP") is not None:
        lines.append(f"- mAP on the reported split: {measured['mAP']:.2f}")
    return "\n".join(
        [*lines, "", "Load it with `scob.Scob.from_pretrained(folder)` or `scob predict FOLDER IMAGES`.", ""]
    )


def plain(name: str) -> str:
    """A name as plain text in Markdown: no HTML, no links, no emphasis."""
    escaped = "".join(f"&#{ord(sign)};" if sign in "<>&[]`*_\\|" else sign for sign in name)
    return " ".join(escaped.split())


def load_network(folder: Path, device: torch.device | str = "cpu") -> tuple[Network, ModelCard]:
    """The network of a model folder, ready to predict. It needs nothing but the folder."""
    folder = Path(folder)
    card = ModelCard.read(folder)
    check_weights(folder, card)
    try:
        weights = load_file(folder / "model.safetensors")
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{folder / 'model.safetensors'} is damaged: {error}") from error
    try:
        settings = ModelSettings.model_validate(card.model)
        check_sizes(card, {name: tuple(tensor.shape) for name, tensor in weights.items()})
        network = rebuild(backbone_from_config(card.backbone, card.backbone_name, "all"), settings, card)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds of exceptions for wrong numbers
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{folder / 'config.json'} describes a model that cannot be built: {reason}") from error
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(
            f"{folder}: the weights do not match config.json: {str(error).splitlines()[-1].strip()}"
        ) from error
    if torch.device(device).type == "cpu":
        keep_freed_memory()
    return network.to(device).eval(), card


def check_weights(folder: Path, card: ModelCard) -> None:
    """Refuse weights that are missing, or are not those that the card names. Very old cards name none."""
    path = folder / "model.safetensors"
    try:
        code = fingerprint(path)
    except FileNotFoundError:
        raise UserError(f"{folder} has no model.safetensors: copy it again, or --resume its run") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    if card.weights and code != card.weights:
        raise UserError(f"{path} is damaged: it is not what config.json describes; copy it again, or --resume its run")


def check_sizes(card: ModelCard, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a ValueError if the card describes a larger network than its weights, before memory is allocated for it.

    Numbers are bounded first: a depth by the number of tensors, everything else by 65,536. Then the network is built
    without memory (on torch's meta device) and compared, tensor by tensor.
    """

    def bound(node: Any, key: str) -> None:
        entries = node.items() if isinstance(node, dict) else ((key, value) for value in node)
        for name, value in entries:
            if isinstance(value, dict | list):
                bound(value, str(name))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                deep = "layers" in str(name) or "depth" in str(name)
                if value > (len(shapes) if deep else 65_536):
                    raise ValueError(f"{name} is {value}, more than the weights have")

    for part in (card.model, card.backbone, card.head or {}, {"grids": [list(g) for g in card.grids]}):
        bound(part, "")
    with torch.device("meta"):
        described = rebuild(
            backbone_from_config(card.backbone, card.backbone_name, "all"),
            ModelSettings.model_validate(card.model),
            card,
        )
    for name, tensor in described.state_dict().items():
        if shapes.get(name) != tuple(tensor.shape):
            raise ValueError(
                f"weights and config.json do not belong together: {name} should be {tuple(tensor.shape)}, "
                f"but the file has {shapes.get(name)}"
            )


def rebuild(backbone: Backbone, settings: ModelSettings, card: ModelCard) -> Network:
    """The network that a card describes, with new weights."""
    if card.head is None:
        return build_network(backbone, settings, len(card.classes), card.size, card.grids)
    from scob import methods

    head = methods.find(card.method).rebuild_head(backbone.channels, card.grids, card.head)
    return Network(backbone, head, len(card.classes), settings.linear)
