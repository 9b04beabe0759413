"""The model folder: config.json and model.safetensors, all that is needed to predict, and a card for people."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from scob.config import ModelSettings
from scob.errors import UserError
from scob.files import fingerprint, write_atomically
from scob.model.backbone import Backbone
from scob.model.load_backbone import backbone_config, backbone_from_config
from scob.model.network import Network, build_network

if TYPE_CHECKING:
    from scob.training.build import Experiment

FORMAT = "scob-model-1"


@dataclass
class ModelCard:
    """What a model folder says of itself (config.json)."""

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
    head: dict[str, Any] | None = None  # of a method that brings its own
    weights: str = ""  # SHA-256 of model.safetensors

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **self.__dict__}, indent=1, ensure_ascii=False)

    @staticmethod
    def read(folder: Path) -> "ModelCard":
        """config.json of a model folder, checked."""
        file = folder / "config.json"
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{folder} is not a model folder: it holds no config.json") from None
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{file} cannot be read: {error}") from error
        if not isinstance(stored, dict) or stored.pop("format", None) != FORMAT:
            raise UserError(
                f"{folder} holds a model of another version of Scob (expected {FORMAT}): train or convert it again"
            )
        try:
            card = ModelCard(**stored)
            card.classes = tuple(str(c) for c in card.classes)
            card.mean, card.std = tuple(map(float, card.mean)), tuple(map(float, card.std))
            card.thresholds = tuple(map(float, card.thresholds))
            card.size, card.weights = int(card.size), str(card.weights)
            card.grids = tuple((int(h), int(w)) for h, w in card.grids)  # type: ignore[assignment]
            sane = len(card.grids) == 2 and len(card.mean) == len(card.std) == 3 and 16 <= card.size <= 4096
            sane = sane and len(card.thresholds) == len(card.classes) and 0 < len(card.classes) <= 1_000_000
            if not sane:
                raise ValueError("sizes do not fit together")
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UserError(f"{file} is damaged: {error}") from error
        return card


def save_model(folder: Path, experiment: "Experiment", summary: dict[str, Any]) -> None:
    """Write the network of an experiment as a model folder."""
    e = experiment
    card = ModelCard(
        classes=e.data.observed.classes,
        size=e.config.data.size,
        mean=e.inputs.mean,
        std=e.inputs.std,
        thresholds=tuple(0.5 for _ in e.data.observed.classes),
        model=e.config.model.model_dump(mode="json"),
        grids=e.inputs.grids,
        backbone_name=e.config.model.backbone,
        backbone=backbone_config(e.network.backbone),
        method=e.config.method,
        labels=summary["labels"],
        evaluation=summary.get("evaluation"),
        head=getattr(e.network.head, "recipe", None),
    )
    write_model(folder, e.network, card)


def write_model(folder: Path, network: Network, card: ModelCard) -> None:
    """Weights first, then the card that makes the folder a model."""
    weights = {k: v.detach().cpu().contiguous() for k, v in network.state_dict().items()}
    stored = save(weights, metadata={"format": "pt"})
    card.weights = hashlib.sha256(stored).hexdigest()
    write_atomically(folder / "model.safetensors", stored)
    write_atomically(folder / "config.json", card.to_json())
    write_atomically(folder / "README.md", describe(card))


def describe(card: ModelCard) -> str:
    """The card as a page."""
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
        f"- Thresholds: {min(card.thresholds):.3f} to {max(card.thresholds):.3f} (one a class, in config.json)",
    ]
    if measured.get("mAP") is not None:
        lines.append(f"- mAP on the reported split: {measured['mAP']:.2f}")
    return "\n".join(
        [*lines, "", "Load it with `scob.Scob.from_pretrained(folder)` or `scob predict FOLDER IMAGES`.", ""]
    )


def plain(name: str) -> str:
    """A name as itself on a page of Markdown: no HTML, no link, no emphasis."""
    escaped = "".join(f"&#{ord(sign)};" if sign in "<>&[]`*_\\|" else sign for sign in name)
    return " ".join(escaped.split())


def load_network(folder: Path, device: torch.device | str = "cpu") -> tuple[Network, ModelCard]:
    """The network of a model folder, ready to predict. Nothing but the folder is needed."""
    folder = Path(folder)
    card = ModelCard.read(folder)
    try:
        if card.weights and fingerprint(folder / "model.safetensors") != card.weights:
            raise ValueError("it is not what config.json was written with; copy it again, or --resume its run")
        weights = load_file(folder / "model.safetensors")
    except FileNotFoundError:
        raise UserError(f"{folder} holds no model.safetensors") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{folder / 'model.safetensors'} is damaged: {error}") from error
    try:
        settings = ModelSettings.model_validate(card.model)
        check_sizes(card, {name: tuple(tensor.shape) for name, tensor in weights.items()})
        network = rebuild(backbone_from_config(card.backbone, card.backbone_name, "all"), settings, card)
    except UserError:
        raise
    except Exception as error:  # transformers has an exception of its own for many a wrong number
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{folder / 'config.json'} describes a model that cannot be built: {reason}") from error
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(
            f"{folder}: weights and config.json do not belong together: {str(error).splitlines()[-1].strip()}"
        ) from error
    return network.to(device).eval(), card


def check_sizes(card: ModelCard, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """A ValueError where the card asks for more than its weights are, before any memory is taken for it.

    Numbers are bounded first (no depth beyond the number of tensors, no width beyond 65,536); then the network is
    laid out without memory and compared, tensor by tensor.
    """

    def bound(node: Any, key: str) -> None:
        inside = node.items() if isinstance(node, dict) else ((key, value) for value in node)
        for name, value in inside:
            if isinstance(value, dict | list):
                bound(value, str(name))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                deep = "layers" in str(name) or "depth" in str(name)
                if value > (len(shapes) if deep else 65_536):
                    raise ValueError(f"{name} is {value}, more than the weights hold")

    for part in (card.model, card.backbone, card.head or {}, {"grids": [list(g) for g in card.grids]}):
        bound(part, "")
    with torch.device("meta"):
        laid_out = rebuild(
            backbone_from_config(card.backbone, card.backbone_name, "all"),
            ModelSettings.model_validate(card.model),
            card,
        )
    for name, tensor in laid_out.state_dict().items():
        if shapes.get(name) != tuple(tensor.shape):
            raise ValueError(
                f"weights and config.json do not belong together: {name} should be {tuple(tensor.shape)}, "
                f"but the file holds {shapes.get(name)}"
            )


def rebuild(backbone: Backbone, settings: ModelSettings, card: ModelCard) -> Network:
    """The network a card describes, with new weights."""
    if card.head is None:
        return build_network(backbone, settings, len(card.classes), card.size, card.grids)
    from scob import methods

    own = methods.find(card.method).rebuild_head(backbone.channels, card.grids, card.head)
    return Network(backbone, own, len(card.classes))
